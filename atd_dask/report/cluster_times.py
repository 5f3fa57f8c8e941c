"""Draws when the documents of a cluster are from, if documents have dates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from atd_dask.documents import NO_DATE
from atd_dask.report.drawing import (
    BOTTOM,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    draw_chart,
    draw_curve,
    draw_left_axis,
    draw_line,
    draw_rectangle,
    draw_text,
)
from atd_dask.report.timeline import HEIGHT, MARGIN

BASE = HEIGHT - BOTTOM

HOUR = 3600
# Possible lengths of a bin in seconds, and their names; the first that is long enough is used.
STEPS = (
    (HOUR, "hour"),
    (24 * HOUR, "day"),
    (7 * 24 * HOUR, "week"),
    (30 * 24 * HOUR, "30 days"),
    (365 * 24 * HOUR, "365 days"),
)
MOST_BINS = 60


@dataclass(frozen=True)
class Bins:
    """Equal intervals of the time that a batch covers."""

    start: int  # seconds since 1970
    step: int
    name: str
    counts: tuple[int, ...]  # of all documents

    @classmethod
    def of(cls, dates: NDArray[np.int64] | None) -> Bins | None:
        """Return the bins for the dates of a batch; None if it has none, or all are the same."""
        known = np.zeros(0, np.int64) if dates is None else dates[dates != NO_DATE]
        if not len(known) or known.min() == known.max():
            return None
        first, last = int(known.min()), int(known.max())
        fit = (one for one in STEPS if last // one[0] - first // one[0] < MOST_BINS)
        step, name = next(fit, STEPS[-1])
        while last // step - first // step >= MOST_BINS:
            step, name = 10 * step, f"{10 * step // STEPS[-1][0]} times 365 days"
        start = first // step * step
        counts = np.bincount((known - start) // step)
        return cls(start, step, name, tuple(counts.tolist()))

    def count(self, dates: NDArray[np.int64]) -> list[int]:
        """Return how many of some documents are in each bin."""
        known = dates[dates != NO_DATE]
        places = (known - self.start) // self.step
        return [int(n) for n in np.bincount(places, minlength=len(self.counts))]

    def show(self, index: int) -> str:
        moment = datetime.fromtimestamp(self.start + index * self.step, UTC)
        return f"{moment:%Y-%m-%d %H:%M}" if self.step < 24 * HOUR else f"{moment:%Y-%m-%d}"


def draw_times(bins: Bins, own: Sequence[int]) -> Markup:
    """Draw the documents of a cluster over time as a line, and the whole batch as bars, scaled."""
    n = len(bins.counts)
    across = Axis(-0.5, max(n, 2) - 0.5, MARGIN, WIDTH - RIGHT)
    up = Axis(0, max(*own, 1), BASE, TOP + 6)
    whole = Axis(0, max(bins.counts), BASE, TOP + 6)
    width = (across.end - across.start) / n * 0.8
    bars = [
        draw_rectangle("track", across.place(index) - width / 2, whole.place(count), width, BASE)
        for index, count in enumerate(bins.counts)
        if count
    ]
    points = [(across.place(index), up.place(count)) for index, count in enumerate(own)]
    ends = [
        draw_text("tick", across.place(0), BASE + 17, bins.show(0), "start"),
        draw_text("tick", across.end, BASE + 17, bins.show(n - 1), "end"),
    ]
    peak = max(range(n), key=lambda index: own[index])
    title = (
        f"{sum(own)} dated documents of the cluster from {bins.show(0)} to {bins.show(n - 1)}, most"
        f" of them, {own[peak]}, in the {bins.name} from {bins.show(peak)}."
    )
    caption = f"documents per {bins.name}; bars: the whole batch, scaled"
    parts = [
        *draw_left_axis(up, whole=True, start=MARGIN),
        *bars,
        draw_line("axis", across.start, BASE, across.end, BASE),
        draw_curve(points),
        *ends,
        draw_text("caption", 0, TOP - 8, caption, "start"),
    ]
    return draw_chart(HEIGHT, title, parts)
