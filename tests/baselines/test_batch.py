"""The methods that know the batch."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from atd_dask.baselines import batch
from atd_dask.baselines.batch import USUAL, rank_batch
from tests import naive_baselines

PLANTED = set(range(60, 80))


def make_documents(n_docs, n_planted, seed):
    """Documents of three subjects, and some of a fourth at the end."""
    rng = np.random.default_rng(seed)
    counts = np.zeros((n_docs, 60), np.int64)
    for d in range(n_docs):
        first = 45 if d >= n_docs - n_planted else 15 * (d % 3)
        own = np.bincount(first + np.arange(15), minlength=60) / 15
        counts[d] = rng.multinomial(40, 0.6 * own + 0.4 / 60)
    return csr_matrix(counts)


@pytest.fixture(scope="module")
def corpora():
    return make_documents(150, 0, seed=1), make_documents(80, len(PLANTED), seed=2)


@pytest.mark.parametrize("method", USUAL)
def test_what_is_new_in_the_batch_comes_first(corpora, method):
    ranking = rank_batch(method, *corpora, seed=1)
    assert sorted(ranking.order) == list(range(80))
    assert len(PLANTED & set(ranking.order[:20].tolist())) >= 17
    again = rank_batch(method, *corpora, seed=1)
    assert ranking.order.tolist() == again.order.tolist()


def test_clusters_are_ranked_and_hold_every_document_once(corpora):
    ranking = rank_batch("clusters", *corpora, seed=1, value=4)
    assert len(ranking.groups) == 4
    assert set(ranking.groups[0].tolist()) == PLANTED
    assert np.concatenate(ranking.groups).tolist() == ranking.order.tolist()


def test_the_others_have_no_groups(corpora):
    assert rank_batch("neighbours", *corpora, seed=1).groups == ()
    assert rank_batch("regression", *corpora, seed=1).groups == ()


@pytest.mark.parametrize("number", [1, 4, 100])
def test_neighbours_equal_the_loops(corpora, number, monkeypatch):
    monkeypatch.setattr(batch, "ROWS_AT_ONCE", 7)
    known, new = batch.weigh_words(corpora[0][:40], corpora[1][50:])
    found = batch.compare_neighbours(known, new, [2, number])
    expected = naive_baselines.batch_minus_training(new.toarray(), known.toarray(), number)
    np.testing.assert_allclose(found[1], expected, atol=1e-12)


def test_words_are_weighed_by_both_parts_together():
    known, new = batch.weigh_words(csr_matrix([[3, 0, 0], [1, 1, 0]]), csr_matrix([[0, 2, 1]]))
    idf = [math.log(4 / (1 + n)) + 1 for n in (2, 2, 1)]
    expected = np.array([0, (1 + math.log(2)) * idf[1], idf[2]])
    np.testing.assert_allclose(new.toarray()[0], expected / np.linalg.norm(expected))
    assert known.toarray()[0].tolist() == [1.0, 0.0, 0.0]


def test_a_cluster_of_the_batch_alone_has_the_largest_excess(corpora):
    found = batch.find_clusters(*batch.weigh_words(*corpora), 4, seed=1)
    planted = found.groups[-1]
    assert found.excess.argmax() == planted
    # No training document is nearest to its centre.
    expected = math.log((20 + 0.5) / (80 + 2)) - math.log(0.5 / (150 + 2))
    assert found.excess[planted] == pytest.approx(expected)


def test_more_clusters_than_documents_and_documents_without_words():
    documents = csr_matrix([[2, 0], [2, 0], [0, 1], [0, 0]])
    found = batch.find_clusters(*batch.weigh_words(documents, documents), 20, seed=1)
    assert len(found.excess) == 3
    assert found.groups[0] == found.groups[1]
    assert found.excess.tolist() == [0, 0, 0]


def test_a_batch_of_one_document_has_no_regression(corpora):
    known, new = batch.weigh_words(corpora[0], corpora[1][:1])
    assert batch.tell_apart(known, new, 1.0, seed=1).tolist() == [0.0]
    assert batch.compare_neighbours(known, new, [3]).shape == (1, 1)
