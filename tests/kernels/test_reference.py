"""Batches that hold no anomaly: training documents, and the model without them."""

from __future__ import annotations

import numpy as np

from atd_dask.kernels import blocks
from atd_dask.kernels.blocks import MemoryCorpus
from atd_dask.kernels.model import Block
from atd_dask.kernels.reference import WithoutRows, draw_held_out, refit, take_documents
from atd_dask.kernels.training import Convergence
from tests.kernels.strategies import make_block
from tests.kernels.test_bootstrap import dense


def make_corpus():
    rng = np.random.default_rng(2)
    topics = rng.dirichlet(np.full(30, 0.1), 3)
    counts = np.stack([rng.multinomial(40, topics[d % 3]) for d in range(90)])
    return counts, MemoryCorpus(make_block(counts), 30)


def test_held_out_documents_belong_to_the_seed_and_the_search():
    assert draw_held_out(100, 30, 1, 0).tolist() == draw_held_out(100, 30, 1, 0).tolist()
    drawn = {tuple(draw_held_out(100, 30, seed, n)) for seed in (1, 2) for n in range(5)}
    assert len(drawn) == 10
    for rows in drawn:
        assert list(rows) == sorted(set(rows))
        assert len(rows) == 30


def test_no_more_than_half_is_held_out():
    assert len(draw_held_out(100, 700, 1, 0)) == 50
    assert len(draw_held_out(1, 700, 1, 0)) == 0


def test_the_rest_is_every_other_document(monkeypatch):
    counts, corpus = make_corpus()
    monkeypatch.setattr(blocks, "BLOCK_DOCUMENTS", 20)
    monkeypatch.setattr(blocks.BlockCutter.__init__, "__defaults__", (2**17, 20))
    held = draw_held_out(90, 30, 1, 3)
    assert len(corpus.block_starts) == 6
    rest = Block.concatenate(list(WithoutRows(corpus, held)))
    np.testing.assert_array_equal(dense(rest, 30), np.delete(counts, held, axis=0))
    np.testing.assert_array_equal(dense(take_documents(corpus, held), 30), counts[held])


def test_the_model_knows_nothing_of_what_is_held_out():
    counts, _ = make_corpus()
    counts[:, 29] = 0
    counts[5, 29] = 4
    corpus = MemoryCorpus(make_block(counts), 30)
    whole = refit_from_scratch(corpus)
    table = refit(whole, WithoutRows(corpus, np.array([5])), Convergence())
    assert table.n_topics == whole.n_topics
    assert whole.shared[29] > 0
    assert table.shared[29] == 0
    np.testing.assert_allclose(table.dense().sum(axis=1), 1, rtol=1e-6)


def refit_from_scratch(corpus):
    from atd_dask.distribution.training import Training, choose_best, train_restarts
    from atd_dask.kernels.training import OrderRange

    return choose_best(train_restarts(Training(corpus, OrderRange(3, 3), Convergence(), 1), 1))
