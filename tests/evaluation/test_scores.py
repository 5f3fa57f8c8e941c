from __future__ import annotations

import math

import numpy as np
import pytest

from atd_dask.distribution.engine.runner import Runner
from atd_dask.evaluation.scores import score_documents
from atd_dask.kernels.alternative import NullContext
from atd_dask.kernels.blocks import MemoryCorpus
from atd_dask.kernels.document_gains import cross_fit_gains
from atd_dask.kernels.fitters import AuthorsFitter, Fitter
from atd_dask.kernels.model import WordTable
from atd_dask.kernels.next_document import Sample
from tests.clusters import local_client
from tests.kernels.strategies import make_block

N_WORDS = 40


@pytest.fixture(scope="module", params=[Fitter, AuthorsFitter])
def fitter(request):
    """A model of one topic, which has no words of its own."""
    empty = np.zeros(0, np.int32), *(np.zeros(0) for _ in range(3))
    table = WordTable(1, np.full(N_WORDS, 1 / N_WORDS), np.zeros(N_WORDS + 1, np.int64), *empty)
    return request.param(NullContext.of(table))


@pytest.fixture(scope="module")
def batch():
    """Plain documents, two clusters, and one without a word."""
    rng = np.random.default_rng(4)
    plain = rng.multinomial(50, np.full(N_WORDS, 1 / N_WORDS), 30)
    odd = [np.eye(N_WORDS)[first : first + 4].mean(0) for first in (0, 8)]
    clusters = [rng.multinomial(50, 0.5 / N_WORDS + 0.5 * own, 6) for own in odd]
    return np.vstack([plain, *clusters, np.zeros((1, N_WORDS), np.int64)])


CLUSTERS = [list(range(35, 29, -1)), list(range(36, 42))]


def score(runner, fitter, batch, clusters):
    """In blocks of ten documents."""
    starts = np.unique([*range(0, len(batch), 10), len(batch)])
    test = MemoryCorpus(make_block(batch), N_WORDS, starts)
    normal = MemoryCorpus(make_block(batch[:30]), N_WORDS)
    return score_documents(runner, fitter, test, normal, clusters)


def test_scores_are_those_of_all_documents_at_once(fitter, batch):
    scores = score(Runner(), fitter, batch, CLUSTERS)
    block = make_block(batch)
    sample = Sample(block, fitter.fit(block))
    log_odds = []
    for rows in CLUSTERS:
        mine = np.sort(rows)
        topic = fitter.train(block.take(mine)).smoothed(fitter.context)
        gains = fitter.gains(topic, sample)
        gains[mine] = cross_fit_gains(fitter, sample.take(mine))
        log_odds.append(gains + math.log(6 / 37))
    np.testing.assert_array_equal(scores.log_odds, np.max(log_odds, axis=0))
    assert scores.nearest[30:42].tolist() == [0] * 6 + [1] * 6
    assert (scores.log_odds[30:42] > 0).all()
    assert np.median(scores.odds[:30]) < 1
    assert np.isnan(scores.surprise[42])
    assert np.isnan(scores.novelty[42])
    assert len(scores.usual) == 30
    assert (np.diff(scores.usual) >= 0).all()


def test_workers_change_nothing(fitter, batch):
    expected = score(Runner(), fitter, batch, CLUSTERS)
    with local_client(2, processes=False) as client:
        scores = score(Runner(client), fitter, batch, CLUSTERS)
    for name in ("surprise", "novelty", "nearest", "log_odds", "usual"):
        np.testing.assert_array_equal(getattr(scores, name), getattr(expected, name))


def test_without_clusters_there_are_no_odds(fitter, batch):
    scores = score(Runner(), fitter, batch, [])
    assert set(scores.nearest.tolist()) == {-1}
    assert (scores.odds == 0).all()
    assert np.isneginf(scores.log_odds).all()


def test_a_batch_without_documents(fitter, batch):
    scores = score(Runner(), fitter, batch[:0], [])
    assert (len(scores.surprise), len(scores.usual)) == (0, 0)
