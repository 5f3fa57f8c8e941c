"""Donors that are found in parts of a pool are those of the whole pool."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atd_dask.kernels.bootstrap import Pool
from atd_dask.kernels.donors import DonorLists, Similar, find_similar
from atd_dask.kernels.fitting import Fit
from atd_dask.kernels.model import Proportions
from atd_dask.kernels.philox import make_key


def make_fit(theta, lengths):
    documents, topics = np.nonzero(theta)
    indptr = np.searchsorted(documents, np.arange(len(theta) + 1))
    proportions = Proportions(indptr, topics.astype(np.int32), theta[documents, topics])
    nothing = np.zeros(len(theta))
    return Fit(proportions, np.array(lengths), nothing, nothing)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 1)), max_size=12),
    st.integers(1, 5),
    st.integers(0, 12),
)
def test_parts_of_a_pool_name_the_donors_of_the_whole(documents, nearest, cut):
    theta = np.array([[a, b] for a, b, _ in documents], float).reshape(-1, 2)
    lengths = [length if a + b else 0 for a, b, length in documents]
    query = np.array([[1.0, 0.5], [0.0, 1.0]])
    starts = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    pool = Pool(make_fit(theta, lengths).proportions, starts, np.zeros(0, np.int32), nearest)
    parts = [
        find_similar(
            make_fit(theta[rows], lengths[rows]),
            np.ones(len(theta[rows]), bool),
            query,
            nearest,
            rows.start or 0,
        )
        for rows in (slice(0, cut), slice(min(cut, len(theta)), None))
    ]
    for one, found in zip(query, zip(*parts, strict=True), strict=True):
        rows = Similar.concatenate(found).nearest(nearest).rows
        assert rows.tolist() == pool.donors(one).tolist()


def test_none_serves_twice_as_long_as_there_is_another():
    donor_lists = DonorLists.of(np.array([0, 0, 1, 0]), [np.array([2, 5, 7]), np.array([5])], 9)
    assert donor_lists.is_possible
    assert donor_lists.largest == 1
    for replicate in range(20):
        chosen = donor_lists.choose(True, make_key("tests"), replicate).tolist()
        assert chosen[2] == 5
        assert set(chosen) <= {2, 5, 7}
        assert len(set(chosen[:2])) == 2
    often = {tuple(donor_lists.choose(False, make_key("tests"), r)[:2]) for r in range(50)}
    assert any(first == second for first, second in often)


@pytest.mark.parametrize(
    ("lists", "possible", "largest"), [([[3], [3]], True, 3), ([[], [1]], False, 1)]
)
def test_thin_pools_are_noticed(lists, possible, largest):
    donor_lists = DonorLists.of(np.array([0, 1, 0]), [np.array(rows, int) for rows in lists], 4)
    assert donor_lists.is_possible == possible
    assert donor_lists.largest == largest
