"""The documents of a cluster over time."""

from __future__ import annotations

import numpy as np

from atd_dask.documents import NO_DATE
from atd_dask.report.cluster_times import MOST_BINS, Bins, draw_times

DAY = 86400


def test_pieces_of_time_are_as_long_as_they_must_be():
    days = np.array([0, 3, 3, 29]) * DAY
    bins = Bins.of(np.append(days, NO_DATE))
    assert bins is not None
    assert (bins.name, len(bins.counts), sum(bins.counts)) == ("day", 30, 4)
    assert bins.count(np.array([3 * DAY, 3 * DAY + 5, NO_DATE]))[3] == 2
    for span, name in ((2 * 3600, "hour"), (300 * DAY, "week"), (1500 * DAY, "30 days")):
        bins = Bins.of(np.array([0, span]))
        assert bins is not None
        assert bins.name == name
        assert len(bins.counts) <= MOST_BINS
    bins = Bins.of(np.array([-60_000_000_000, 200_000_000_000]))
    assert bins is not None
    assert len(bins.counts) <= MOST_BINS


def test_without_dates_there_is_nothing_to_show():
    assert Bins.of(None) is None
    assert Bins.of(np.full(3, NO_DATE)) is None
    assert Bins.of(np.array([5, 5])) is None


def test_the_chart_says_when():
    bins = Bins.of(np.array([0, 1, 2, 3]) * DAY)
    assert bins is not None
    chart = draw_times(bins, [0, 4, 1, 0])
    assert "5 dated documents of the cluster from 1970-01-01 to 1970-01-04" in chart
    assert "most of them, 4, in the day from 1970-01-02" in chart
    assert chart.count("<rect") == 4
