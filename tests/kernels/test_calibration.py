"""Batches with no anomaly in them: held-out normal documents, and the rest."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atd_dask.kernels import blocks, calibration
from atd_dask.kernels.blocks import MemoryCorpus
from atd_dask.kernels.calibration import (
    RowsInMemory,
    SomeRows,
    draw_held_out,
    estimate_p_value,
    is_certain,
)
from atd_dask.kernels.model import Block
from tests import naive
from tests.kernels.strategies import make_block
from tests.kernels.test_bootstrap import dense


def make_corpus():
    rng = np.random.default_rng(2)
    topics = rng.dirichlet(np.full(30, 0.1), 3)
    counts = np.stack([rng.multinomial(40, topics[d % 3]) for d in range(90)])
    return counts, MemoryCorpus(make_block(counts), 30)


def test_held_out_documents_belong_to_the_seed_and_the_search():
    _, corpus = make_corpus()

    def draw(seed, index):
        held, _ = draw_held_out(corpus, 30, seed, index)
        return tuple(held.chosen.tolist())

    assert draw(1, 0) == draw(1, 0)
    drawn = {draw(seed, n) for seed in (1, 2) for n in range(5)}
    assert len(drawn) == 10
    for rows in drawn:
        assert list(rows) == sorted(set(rows))
        assert len(rows) == 30


def test_no_more_than_half_is_held_out():
    _, corpus = make_corpus()
    held, rest = draw_held_out(corpus, 700, 1, 0)
    assert (held.n_docs, rest.n_docs) == (45, 45)
    held, rest = draw_held_out(SomeRows(corpus, np.array([3])), 700, 1, 0)
    assert (held.n_docs, rest.n_docs) == (0, 1)


def test_the_rest_is_every_other_document(monkeypatch):
    counts, corpus = make_corpus()
    monkeypatch.setattr(blocks, "BLOCK_DOCUMENTS", 20)
    monkeypatch.setattr(blocks.BlockCutter.__init__, "__defaults__", (2**17, 20))
    held, rest = draw_held_out(corpus, 30, 1, 3)
    assert len(corpus.block_starts) == 6
    others = np.delete(counts, held.chosen, axis=0)
    blocks_of_rest = [rest.block(index) for index in range(len(rest.block_starts) - 1)]
    assert [block.start for block in blocks_of_rest] == rest.block_starts[:-1].tolist()
    np.testing.assert_array_equal(dense(Block.concatenate(blocks_of_rest), 30), others)
    np.testing.assert_array_equal(dense(held.rows(0, 30), 30), counts[held.chosen])
    np.testing.assert_array_equal(dense(held.rows(7, 19), 30), counts[held.chosen[7:19]])
    assert len(held.rows(4, 4)) == 0
    np.testing.assert_array_equal(held.lengths(), counts[held.chosen].sum(axis=1))
    assert held.digest != rest.digest
    assert held.n_entries + rest.n_entries == pytest.approx(corpus.n_entries, abs=1)


@given(st.floats(-50, 500), st.lists(st.floats(0, 60), min_size=1, max_size=30))
def test_chance_is_that_of_the_law(support, references):
    chance = estimate_p_value(support, np.array(references))
    expected = naive.chance_of_maximum(support, references)
    np.testing.assert_allclose(chance, expected, rtol=1e-6, atol=1e-9)
    assert 1e-6 <= chance <= 1


@pytest.mark.parametrize("scale", [2.3, 2.5, 2.8])
@pytest.mark.parametrize("n", [19, 39])
def test_maxima_of_chance_get_uniform_p_values(n, scale):
    rng = np.random.default_rng(3)
    drawn = 8 + scale * rng.gumbel(size=(20_000, n + 1))
    p_values = np.array([estimate_p_value(row[0], row[1:]) for row in drawn])
    for level in (0.01, 0.05, 0.2, 0.5):
        assert np.mean(p_values <= level) == pytest.approx(level, rel=0.35)


def test_p_values_of_the_usual_spread_are_right_far_out():
    rng = np.random.default_rng(4)
    drawn = 15 + 2.5 * rng.gumbel(size=(100_000, 20))
    p_values = np.array([estimate_p_value(row[0], row[1:]) for row in drawn])
    for level in (0.001, 0.01, 0.05, 0.2):
        assert np.mean(p_values <= level) == pytest.approx(level, rel=0.15)


def test_the_law_is_refused_if_searches_reached_what_it_calls_rare():
    one_outlier = np.append(np.zeros(18), 40.0)
    assert estimate_p_value(39.0, one_outlier) == 1 / 20
    assert estimate_p_value(100.0, np.zeros(19)) == 1e-6
    assert estimate_p_value(1e9, np.zeros(19)) == 1e-6
    assert estimate_p_value(0.0, np.zeros(19)) > 0.4


def test_p_values_fall_as_support_grows():
    references = 15 + 2.5 * np.random.default_rng(5).gumbel(size=19)
    p_values = [estimate_p_value(support, references) for support in np.linspace(0, 400, 2000)]
    assert p_values == sorted(p_values, reverse=True)


def test_more_searches_make_a_decision_certain():
    assert is_certain(0.5, 0.01, 19)
    assert is_certain(1e-6, 0.01, 19)
    assert not is_certain(0.02, 0.01, 19)
    assert not is_certain(0.005, 0.01, 19)
    assert is_certain(0.04, 0.01, 10_000)


@given(st.sets(st.integers(0, 39)), st.integers(1, 5), st.integers(1, 4))
def test_rows_are_read_in_runs_of_blocks(rows, per_block, at_once):
    """Every block that has a row is read once, and no other; those in a row a few at a time."""
    block = make_block(np.arange(1, 81).reshape(40, 2))
    starts = np.append(np.arange(0, 40, per_block), 40)
    read = []

    class Watched(MemoryCorpus):
        def rows(self, start, stop):
            read.append((start, stop))
            return super().rows(start, stop)

    chosen = np.array(sorted(rows), dtype=np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibration, "BLOCKS_AT_ONCE", at_once)
        found = SomeRows(Watched(block, 2, starts), chosen).rows(0, len(chosen))
    np.testing.assert_array_equal(dense(found, 2), dense(block, 2)[chosen])
    whole = np.concatenate([np.arange(*bounds) // per_block for bounds in read] or [chosen])
    np.testing.assert_array_equal(np.unique(whole), np.unique(chosen // per_block))
    assert all(-(-(stop - start) // per_block) <= at_once for start, stop in read)


def test_rows_in_memory_are_those_of_the_corpus_read_once(monkeypatch):
    _, corpus = make_corpus()
    some = SomeRows(corpus, np.array([1, 4, 7, 8]))
    kept = RowsInMemory(corpus, some.chosen)
    assert (kept.n_docs, kept.n_entries) == (some.n_docs, some.n_entries)
    for start, stop in ((0, 4), (1, 3)):
        np.testing.assert_array_equal(kept.rows(start, stop).terms, some.rows(start, stop).terms)
        assert kept.rows(start, stop).start == start
    monkeypatch.setattr(SomeRows, "rows", None)
    assert len(kept.rows(0, 2)) == 2
