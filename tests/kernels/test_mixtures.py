from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atd_dask.kernels import mixtures
from tests import naive
from tests.kernels.compiled import callable_kernel

line_maximum = callable_kernel(mixtures.line_maximum)
log_likelihood = callable_kernel(mixtures.log_likelihood)
maximise = callable_kernel(mixtures.maximise)
mix = callable_kernel(mixtures.mix)
slope_along = callable_kernel(mixtures.slope_along)
stays_below = callable_kernel(mixtures.stays_below)


@given(seed=st.integers(0, 2**32 - 1), m=st.integers(2, 5), n=st.integers(1, 12))
def test_maximise_reaches_the_best_proportions(seed, m, n):
    rng = np.random.default_rng(seed)
    rows = rng.gamma(0.3, 1.0, (m, n)) + 1e-9
    rows /= rows.sum(axis=1, keepdims=True)
    counts = rng.integers(1, 9, n).astype(float)
    active = np.arange(m, dtype=np.int32)
    theta = np.full(m, 1 / m)
    p = np.zeros(n)
    mix(rows, active, theta, p, m, n)
    scratch = np.zeros(m), np.zeros(n), np.zeros(n)
    mixture = mixtures.Mixture(counts, rows, active, theta, p, *scratch)
    maximise(mixture, m, n, counts.sum())
    reached = log_likelihood(counts, p, n)
    best = naive.document_log_likelihood(
        counts, naive.best_proportions(counts, rows, range(m), 2000), rows
    )
    assert reached >= best - 1e-5
    assert theta.sum() == pytest.approx(1)
    assert np.all(theta >= 0)
    np.testing.assert_allclose(p, theta @ rows, rtol=1e-9)


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 12))
def test_line_maximum_stands_a_probability_that_is_almost_zero(seed, n):
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    p[0] = 1e-19
    direction = rng.random(n) - p
    counts = rng.integers(1, 9, n).astype(float)
    found = line_maximum(counts, p, direction, np.zeros(n), n, 0.5, 1.0, 1e-9)
    grid = np.linspace(0, 1, 2001)[1:]
    values = [counts @ np.log(p + x * direction) for x in grid]
    assert counts @ np.log(p + found * direction) >= max(values) - 1e-6


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 12), limit=st.floats(0.01, 20))
def test_what_stays_below_a_limit_does(seed, n, limit):
    rng = np.random.default_rng(seed)
    p = rng.gamma(0.3, 1.0, n) + 1e-6
    p /= p.sum()
    q = rng.gamma(0.3, 1.0, n) + 1e-6
    direction = q / q.sum() - p
    counts = rng.integers(1, 9, n).astype(float)
    slope = slope_along(counts, p, direction, np.zeros(n), n, 0.0)
    if slope <= 0:
        return
    below, inside = stays_below(counts, p, direction, np.zeros(n), n, slope, limit)
    rise = max(
        counts @ np.log(p + x * direction) - counts @ np.log(p) for x in np.linspace(0, 1, 999)
    )
    assert not (below and rise > limit + 1e-9)
    assert 0 <= inside < 1
