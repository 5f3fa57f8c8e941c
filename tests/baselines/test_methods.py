"""The methods for which scikit-learn, or the null model, does the work."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.svm import OneClassSVM

from atd_dask.baselines import likelihood, neighbours, one_class
from atd_dask.baselines.features import divide_by_length
from atd_dask.baselines.lda import choose_groups, group_documents, learn_proportions
from atd_dask.kernels.word_switches import make_table
from tests import naive
from tests.kernels.strategies import make_block


@pytest.fixture(scope="module")
def documents():
    """Documents of two subjects, and two odd ones at the end."""
    rng = np.random.default_rng(1)
    counts = np.zeros((42, 20), np.int64)
    for d in range(42):
        first = 14 if d >= 40 else 7 * (d % 2)
        counts[d] = rng.multinomial(30, np.bincount(first + np.arange(6), minlength=20) / 6)
    return counts


def test_shares_of_words():
    shares = divide_by_length(csr_matrix([[1, 3], [0, 0]])).toarray()
    assert shares.tolist() == [[0.25, 0.75], [0.0, 0.0]]


def test_groups_are_the_subjects(documents):
    groups = group_documents(csr_matrix(documents[:40]), 2, seed=1)
    assert len({*groups[::2]}) == len({*groups[1::2]}) == 1
    assert groups[0] != groups[1]


def test_topics_are_always_the_same(documents):
    train, test = csr_matrix(documents[:30]), csr_matrix(documents[30:])
    first, again = (learn_proportions(train, test, 3, seed=5) for _ in range(2))
    assert (first[0] == again[0]).all()
    assert (first[1] == again[1]).all()
    assert first[1].sum(axis=1) == pytest.approx(1)
    assert choose_groups(np.array([[0.2, 0.8], [0.5, 0.5]])).tolist() == [1, 0]


@pytest.mark.parametrize("gamma", [None, 10.0])
def test_machines_find_what_is_odd(documents, gamma):
    train, test = csr_matrix(documents[:30]), csr_matrix(documents[30:])
    products = one_class.Products.of(train, test)
    scores = one_class.score_documents(products, nu=0.1, gamma=gamma)
    assert set(np.argsort(-scores)[:2]) == {10, 11}
    assert (scores[10:] > 0).all()
    kernel = {"kernel": "linear"} if gamma is None else {"kernel": "rbf", "gamma": gamma}
    machine = OneClassSVM(nu=0.1, tol=1e-4, **kernel).fit(divide_by_length(train))
    expected = -machine.decision_function(divide_by_length(test))
    assert scores == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("number", [1, 3])
def test_p_values_equal_the_loops(documents, number):
    train, test = documents[:12], documents[36:]
    found = neighbours.compare_distances(csr_matrix(train), csr_matrix(test), [number])
    expected = [naive.nearest_neighbour_p_value(row, train, number) for row in test]
    assert found.p_values[0] == pytest.approx(expected)
    assert set(np.argsort(-found.distances[0])[:2]) == {4, 5}


def test_more_neighbours_than_documents(documents):
    train = csr_matrix(documents[:3])
    found = neighbours.compare_distances(train, csr_matrix(documents[3:5]), [1, 50])
    assert (found.distances[1] >= found.distances[0]).all()


def test_equal_distances_are_not_larger():
    assert neighbours.rank(np.array([0.0, 1.0, 2.0]), np.array([1.0, 1.0, 2.0])).tolist() == [
        1.0,
        1 / 3,
        0.0,
    ]


def test_likelihood_is_for_the_length_of_the_document():
    shared = np.array([0.5, 0.25, 0.25, 0.0])
    specific = np.zeros((1, 4), bool)
    specific[0, :2] = True
    table = make_table(shared, specific, np.array([[0.7, 0.05, 0.0, 0.0]]))
    counts = [[2, 0, 0, 0], [4, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 3]]
    scores = likelihood.score_documents(make_block(counts), table)
    assert scores[0] == pytest.approx(-np.log(0.7))
    assert scores[1] == pytest.approx(scores[0])
    assert scores[2] == pytest.approx(-np.log(0.05 * 0.25) / 2)
    assert scores[3] == 0
