"""Growth is distinguished from a burst by counts alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import poisson

from atd_dask.kernels.trends import weigh_growth, weigh_replacement

CERTAIN = 6.9


def weigh(counts, of_topic=10.0, usual=0.0):
    counts = np.array(counts, dtype=np.float64)
    return weigh_growth(counts, np.full(len(counts), of_topic), np.full(len(counts), usual))


def test_what_grows_over_weeks_is_growth():
    assert weigh([0, 0, 1, 1, 2, 3, 3, 4, 5, 5, 6, 7, 7, 8, 8, 9]) > 4
    assert weigh([0, 2, 5, 8, 11, 14, 18, 20, 24, 27, 30, 33, 36, 40], 100.0) > CERTAIN


def test_what_is_there_at_once_and_gone_again_is_a_burst():
    assert weigh([0] * 20 + [10, 10, 10, 0], 20.0) < -CERTAIN
    assert weigh([0] * 20 + [5, 5, 5, 0, 0]) < -CERTAIN


def test_a_group_as_large_as_its_topic_is_a_burst_on_its_first_day():
    assert weigh([0] * 10 + [15], 15.0) < -CERTAIN
    assert weigh([0] * 10 + [15], 500.0) > -1


def test_what_has_been_there_for_long_is_no_burst():
    assert weigh([4, 5, 3, 6, 4, 5, 4, 5, 6, 4]) == pytest.approx(0, abs=2)


def test_what_is_usual_says_nothing():
    assert weigh([3] * 20, usual=3.0) == pytest.approx(0, abs=0.1)


def test_growth_by_the_day_is_hardly_ever_taken_for_a_burst():
    stream = np.random.default_rng(1)
    ages = np.clip(np.arange(28) - 14, 0, None) / 15
    wrong = sum(
        weigh(stream.binomial(10, 1 - np.exp(-1.4 * ages[: 17 + n % 11]))) < -CERTAIN
        for n in range(150)
    )
    assert wrong == 0


def test_documents_in_place_of_others_replace_them():
    assert weigh_replacement(18, 20, 17.0) > 3
    assert weigh_replacement(10, 30, 20.0) < -2
    assert weigh_replacement(5, 0, 0.0) == 5


def test_replacement_is_a_ratio_of_poisson_s_law():
    usual, more = poisson(20.0), poisson(32.0)
    expected = usual.logpmf(26) - more.logpmf(26)
    assert weigh_replacement(12, 26, 20.0) == pytest.approx(expected)
