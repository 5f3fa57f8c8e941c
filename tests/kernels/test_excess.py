"""Excess: whether documents of a kind are more frequent in a batch than among normal ones."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from atd_dask.kernels.excess import measure_excess
from tests import naive


@given(st.floats(-5, 500), st.integers(1, 10**6), st.floats(0, 10**5), st.integers(0, 10**7))
@example(-1.0, 1, 0.0, 1)
@example(-1.0, 1, 0.0, 0)
@example(1e-9, 1, 0.0, 10**7)
@settings(max_examples=500)
def test_excess_is_that_of_the_definition(n_found, n_batch, n_usual, n_normal):
    excess = measure_excess(n_found, n_batch, n_usual, n_normal)
    expected = naive.excess(n_found, n_batch, n_usual, n_normal)
    np.testing.assert_allclose(excess, expected, rtol=1e-6, atol=1e-6)


def test_a_kind_that_is_as_frequent_among_normal_documents_is_no_excess():
    assert measure_excess(10.0, 500, 40.0, 2000) == 0.0
    assert measure_excess(0.0, 500, 0.0, 2000) == 0.0
    some, more = measure_excess(10.0, 500, 10.0, 2000), measure_excess(20.0, 500, 10.0, 2000)
    assert 0 < some < more < measure_excess(20.0, 500, 0.0, 2000)
