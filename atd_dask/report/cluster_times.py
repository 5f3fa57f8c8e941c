"""When the documents of a cluster are from, where documents have dates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from atd_dask.documents import NO_DATE
from atd_dask.report.charts import (
    BOTTOM,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    _draw,
    _draw_left_axis,
    _line,
    _round,
    _text,
)
from atd_dask.report.timeline import HEIGHT, MARGIN

BASE = HEIGHT - BOTTOM

HOUR = 3600
# The lengths of a bin in seconds, and their names; the first that is long enough is taken.
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
    """Equal pieces of the time that a batch covers."""

    start: int  # seconds since 1970
    step: int
    name: str
    counts: tuple[int, ...]  # of all documents

    @classmethod
    def of(cls, dates: NDArray[np.int64] | None) -> Bins | None:
        """For the dates of a batch; None where it has none, or all are of one moment."""
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
        """How many of some documents are of each piece."""
        known = dates[dates != NO_DATE]
        places = (known - self.start) // self.step
        return [int(n) for n in np.bincount(places, minlength=len(self.counts))]

    def show(self, index: int) -> str:
        moment = datetime.fromtimestamp(self.start + index * self.step, UTC)
        return f"{moment:%Y-%m-%d %H:%M}" if self.step < 24 * HOUR else f"{moment:%Y-%m-%d}"


def draw_times(bins: Bins, own: Sequence[int]) -> Markup:
    """The documents of a cluster over time as a line, and as bars all of the batch, scaled."""
    n = len(bins.counts)
    across = Axis(-0.5, max(n, 2) - 0.5, MARGIN, WIDTH - RIGHT)
    up = Axis(0, max(*own, 1), BASE, TOP + 6)
    whole = Axis(0, max(bins.counts), BASE, TOP + 6)
    width = (across.end - across.start) / n * 0.8
    bars = [
        f'<rect class="track" x="{_round(across.place(index) - width / 2)}"'
        f' y="{_round(whole.place(count))}" width="{_round(width)}"'
        f' height="{_round(BASE - whole.place(count))}"/>'
        for index, count in enumerate(bins.counts)
        if count
    ]
    points = " ".join(
        f"{_round(across.place(index))},{_round(up.place(count))}"
        for index, count in enumerate(own)
    )
    ends = [
        _text("tick", across.place(0), BASE + 17, bins.show(0), "start"),
        _text("tick", across.end, BASE + 17, bins.show(n - 1), "end"),
    ]
    peak = max(range(n), key=lambda index: own[index])
    title = (
        f"{sum(own)} dated documents of the cluster from {bins.show(0)} to {bins.show(n - 1)}, most"
        f" of them, {own[peak]}, in the {bins.name} from {bins.show(peak)}."
    )
    caption = f"documents a {bins.name}; bars: the whole batch, scaled"
    parts = [
        *_draw_left_axis(up, whole=True, start=MARGIN),
        *bars,
        _line("axis", across.start, BASE, across.end, BASE),
        f'<polyline class="curve" points="{points}"/>',
        *ends,
        _text("caption", 0, TOP - 8, caption, "start"),
    ]
    return _draw(HEIGHT, title, parts)
