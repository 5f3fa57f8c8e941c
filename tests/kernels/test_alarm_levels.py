"""The levels of a series of tests: equal to a naive version, and true to their promise."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import norm

from atd_dask.kernels.alarm_levels import level_for_rate, level_for_share, weight
from tests import naive

SWEEPS = 365
LAG = 6


def draw_p_values(stream: np.random.Generator, n_series: int, lag: int) -> np.ndarray:
    """Uniform p-values, series × tests, that depend on each other up to `lag` apart: each is that
    of the sum of as many draws as a window has sweeps."""
    draws = stream.standard_normal((n_series, SWEEPS + lag))
    sums = np.cumsum(np.pad(draws, ((0, 0), (1, 0))), axis=1)
    windows = (sums[:, lag + 1 :] - sums[:, : -lag - 1]) / np.sqrt(lag + 1)
    return np.asarray(norm.sf(windows))


def plant_signals(stream: np.random.Generator, p_values: np.ndarray, n: int) -> np.ndarray:
    """Plant outbreaks that last three tests each; return where they are."""
    true = np.zeros(p_values.shape, dtype=bool)
    for row in range(len(p_values)):
        for start in stream.choice(SWEEPS - 3, n, replace=False).tolist():
            true[row, start : start + 3] = True
    p_values[true] *= 10.0 ** -stream.uniform(2, 6, np.count_nonzero(true))
    return true


def test_a_rate_is_kept_whatever_depends_on_what():
    p_values = draw_p_values(np.random.default_rng(1), 4000, LAG)
    level = level_for_rate(2, SWEEPS)
    counts = (p_values <= level).sum(axis=1)
    error = counts.std() / np.sqrt(len(counts))
    assert abs(counts.mean() - 2) < 4 * error


@pytest.mark.parametrize("lag", [0, LAG])
@pytest.mark.parametrize("n_signals", [0, 2, 8])
def test_a_share_is_kept_under_dependence(lag, n_signals):
    share = 0.2
    stream = np.random.default_rng(10 * lag + n_signals)
    p_values = draw_p_values(stream, 400, lag)
    true = plant_signals(stream, p_values, n_signals)
    n_false, n_alarms = [], []
    for series, signal in zip(p_values, true, strict=True):
        alarms: list[int] = []
        for test, p_value in enumerate(series.tolist(), 1):
            if p_value <= level_for_share(share, test, alarms, lag):
                alarms.append(test)
        n_alarms.append(len(alarms))
        n_false.append(sum(not signal[alarm - 1] for alarm in alarms))
    error = np.std(n_false) / np.sqrt(len(n_false))
    # The share is that of expectations, with at least one alarm in every series.
    assert np.mean(n_false) - 3 * error <= share * np.mean(np.maximum(n_alarms, 1))
    if n_signals:
        assert np.mean(n_alarms) > 1  # it is not kept by silence


def test_levels_are_those_of_a_naive_account():
    stream = np.random.default_rng(3)
    for lag in (0, 3):
        raised = stream.random(60) < 0.1
        expected = naive.lord_levels(0.1, raised.tolist(), lag)
        for test in range(1, 61):
            alarms = (np.flatnonzero(raised[: test - 1]) + 1).tolist()
            level = level_for_share(0.1, test, alarms, lag)
            assert level == pytest.approx(expected[test - 1], rel=1e-3)
            assert level <= expected[test - 1]


def test_an_alarm_counts_once_the_windows_no_longer_overlap():
    quiet = [level_for_share(0.1, test, [], 3) for test in range(1, 12)]
    after = [level_for_share(0.1, test, [4], 3) for test in range(1, 12)]
    assert after[:7] == quiet[:7]
    assert all(more > less for more, less in zip(after[7:], quiet[7:], strict=True))
    assert level_for_share(0.1, 500, [], 3) > 1e-6  # what a p-value can be at the least


def test_weights_fall_and_sum_to_one_at_most():
    weights = [weight(age) for age in range(1, 2000)]
    assert all(a >= b for a, b in pairwise(weights[2:]))
    assert sum(weights) < 1
