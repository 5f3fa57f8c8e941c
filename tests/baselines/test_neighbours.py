"""Distances to neighbours, next to loops."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from atd_dask.baselines import neighbours
from tests import naive_baselines


@pytest.mark.parametrize("number", [1, 3])
def test_p_values_equal_the_loops(documents, number):
    train, test = documents[:12], documents[36:]
    found = neighbours.compare_distances(csr_matrix(train), csr_matrix(test), [number])
    expected = [naive_baselines.nearest_neighbour_p_value(row, train, number) for row in test]
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
