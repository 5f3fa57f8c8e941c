from __future__ import annotations

import pytest

from atd_dask.evaluation.rates import Rate, interval


def test_the_interval_of_a_share():
    assert interval(0, 100) == pytest.approx((0, 0.0362), abs=1e-4)
    assert interval(5, 100) == pytest.approx((0.0164, 0.1128), abs=1e-4)
    assert interval(10, 10) == pytest.approx((0.6915, 1), abs=1e-4)


def test_a_rate_of_outcomes():
    rate = Rate.count([True, False, False, False])
    assert (rate.happened, rate.of, rate.share) == (1, 4, 0.25)
    assert (rate.low, rate.high) == interval(1, 4)
