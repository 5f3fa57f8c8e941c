"""The charts of a report. They contain only numbers and fixed words, never text of documents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from atd_dask.report.drawing import (
    BOTTOM,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    draw_bottom_axis,
    draw_chart,
    draw_circle,
    draw_curve,
    draw_left_axis,
    draw_line,
    draw_rectangle,
    draw_text,
    mark_svg,
    show_number,
)
from atd_dask.report.numbers import show_decade, show_decimal

MOST_BINS = 60
BAR_WIDTH, BAR_HEIGHT, BAR_MARGIN = 420, 16, 14
LOWEST_DECADE = -6


def draw_histogram(scores: Sequence[float], own: float) -> Markup:
    """Draw a histogram of bootstrap scores, with the score of the cluster as a line."""
    title = (
        f"Histogram of {len(scores):,} bootstrap scores from {show_decimal(min(scores))} to"
        f" {show_decimal(max(scores))}; the cluster's own score is {show_decimal(own)}."
    )
    return _draw_among(scores, own, "score", "drawn at random", title)


def draw_searches(others: Sequence[float], own: float) -> Markup:
    """Draw a histogram of the support found in held-out documents, with that of the cluster as a
    line."""
    title = (
        f"Support that {len(others)} searches in held-out documents found, the largest"
        f" {show_decimal(max(others))}; the cluster has {show_decimal(own)}."
    )
    return _draw_among(others, own, "support", "searches in normal documents", title)


def _draw_among(values: Sequence[float], own: float, name: str, caption: str, title: str) -> Markup:
    """Draw a histogram of values, with one more value as a line."""
    height, base = 210, 210 - BOTTOM
    across = Axis.of([*values, own], LEFT, WIDTH - RIGHT, zero=True)
    counts = _count_bins(values, across)
    up = Axis(0, max(counts), base, TOP + 14)
    width = (across.end - across.start) / len(counts)
    bars = [
        draw_rectangle(
            "bar", across.start + n * width, up.place(count), max(width - 0.6, 0.6), base
        )
        for n, count in enumerate(counts)
        if count
    ]
    here = across.place(own)
    anchor = _anchor_inside(here)
    parts = [
        *draw_left_axis(up, whole=True),
        *bars,
        *draw_bottom_axis(across, base, name),
        draw_line("own", here, TOP, here, base),
        draw_text("own-label", here + _nudge(anchor), TOP - 8, "this cluster", anchor),
        draw_text("caption", 0, TOP - 8, caption, "start") if here > WIDTH * 0.7 else "",
    ]
    return draw_chart(height, title, parts)


def _count_bins(scores: Sequence[float], across: Axis) -> list[int]:
    counts = [0] * MOST_BINS
    for score in scores:
        part = (score - across.low) / (across.high - across.low)
        counts[min(int(part * MOST_BINS), MOST_BINS - 1)] += 1
    return counts


def draw_growth(scores: Sequence[float], shares: Sequence[float], failed: Sequence[bool]) -> Markup:
    """Draw the score of the cluster at each size, and below it the share of the new topic in the
    document that joins."""
    height, middle, base = 330, 158, 330 - BOTTOM
    across = Axis.of([1, max(len(scores), 2)], LEFT, WIDTH - RIGHT)
    up = Axis.of(scores, middle, TOP, zero=True)
    low = Axis(0, 1, base, middle + 48)
    points = [(across.place(n), up.place(score)) for n, score in enumerate(scores, 1)]
    radius = 2.6 if len(scores) <= 120 else 1.4
    dots = [
        draw_circle("failed" if bad else "dot", across.place(n), low.place(share), radius)
        for n, (share, bad) in enumerate(zip(shares, failed, strict=True), 1)
    ]
    parts = [
        *draw_left_axis(up, most=4),
        draw_curve(points),
        draw_circle("dot", *points[-1], 2.6),
        draw_text("caption", 0, TOP - 8, "score of the cluster", "start"),
        *draw_left_axis(low, most=3, form="{:.0%}"),
        *dots,
        draw_text(
            "caption",
            0,
            middle + 34,
            "share of the new topic in the document that joins next",
            "start",
        ),
        *draw_bottom_axis(across, base, "documents in the cluster", whole=True),
    ]
    title = (
        f"Growth in {len(scores)} steps: the score goes from {show_decimal(scores[0])} to"
        f" {show_decimal(scores[-1])}, the share from {shares[0]:.0%} to {shares[-1]:.0%}."
    )
    return draw_chart(height, title, parts)


def draw_orders(orders: Sequence[int], bics: Sequence[float], chosen: int) -> Markup:
    """Draw the BIC of the null model for each number of topics."""
    height, base = 230, 230 - BOTTOM
    across = Axis.of(orders, LEFT + 18, WIDTH - RIGHT)
    up = Axis.of(bics, base - 28, TOP + 8)  # with room for a label below the minimum
    pairs = sorted(zip(orders, bics, strict=True))
    points = [(across.place(n), up.place(bic)) for n, bic in pairs]
    best = next(bic for n, bic in pairs if n == chosen)
    x, y = across.place(chosen), up.place(best)
    anchor = _anchor_inside(x)
    parts = [
        *draw_left_axis(up, most=4, start=LEFT + 18),
        draw_curve(points),
        *(draw_circle("dot", *point, 2) for point in points),
        draw_circle("chosen", x, y, 4.5),
        draw_text("own-label", x, y + 20, f"{chosen} topics", anchor),
        draw_text("caption", 0, TOP - 8, "BIC", "start"),
        *draw_bottom_axis(across, base, "topics", whole=True),
    ]
    title = f"BIC for {len(pairs)} numbers of topics; the lowest, {best:,.0f}, is at {chosen}."
    return draw_chart(height, title, parts)


@dataclass(frozen=True)
class MethodRow:
    """A figure of a method over seeds, from 0 to 1, and the one it is compared with."""

    name: str
    mean: float
    low: float
    high: float
    other: float | None


def draw_methods(rows: Sequence[MethodRow], figure: str) -> Markup:
    """Draw a line for each method over the range of our figures, with a dot at the mean and a tick
    at the paper's."""
    step, start = 24, 112
    height = TOP + step * len(rows) + BOTTOM
    base = height - BOTTOM
    across = Axis(0, 1, start, WIDTH - RIGHT)
    parts = [*draw_bottom_axis(across, base, figure)]
    for number, row in enumerate(rows):
        y = TOP + step * (number + 0.5)
        parts += [
            draw_text("tick", start - 8, y + 4, row.name, "end"),
            draw_line("grid", across.start, y, across.end, y),
            draw_line("own", across.place(row.low), y, across.place(row.high), y),
            draw_circle("dot", across.place(row.mean), y, 4),
        ]
        if row.other is not None:
            x = across.place(row.other)
            parts.append(draw_line("shared", x, y - 8, x, y + 8))
    told = ", ".join(f"{row.name} {row.mean:.2f}" for row in rows)
    return draw_chart(height, f"{figure}: {told}.", parts)


@dataclass(frozen=True)
class Decades:
    """A logarithmic axis for bars of probabilities, from 10^low to 10^high."""

    low: int
    high: int

    @classmethod
    def of(cls, probabilities: Sequence[float]) -> Decades:
        """Return an axis from the smallest probability, but at least a millionth, to the
        largest."""
        logs = [math.log10(p) for p in probabilities if p > 0] or [0.0]
        low = max(math.floor(min(logs)), LOWEST_DECADE)
        return cls(low, max(math.ceil(max(logs)), low + 1))

    def place(self, probability: float) -> float:
        log = math.log10(probability) if probability > 0 else -math.inf
        part = (min(max(log, self.low), self.high) - self.low) / (self.high - self.low)
        return BAR_MARGIN + part * (BAR_WIDTH - 2 * BAR_MARGIN)

    def draw_scale(self) -> Markup:
        """Draw the axis, for the head of the column."""
        labels = [
            draw_text("tick", self.place(10.0**exponent), 12, show_decade(exponent), "middle")
            for exponent in range(self.low, self.high + 1)
        ]
        return _draw_small("scale", labels)

    def draw_bar(self, probability: float, shared: float) -> Markup:
        """Draw a bar from the shared probability, marked by a tick, to that of the topic."""
        own, base = self.place(probability), self.place(shared)
        middle = BAR_HEIGHT / 2
        left, right = min(own, base), max(own, base)
        kind = "more" if probability >= shared else "less"
        return _draw_small(
            "word-bar",
            [
                *(
                    draw_line("grid", x, 0, x, BAR_HEIGHT)
                    for e in range(self.low, self.high + 1)
                    for x in [self.place(10.0**e)]
                ),
                f'<rect class="{kind}" x="{show_number(left)}" y="{show_number(middle - 3)}"'
                f' width="{show_number(max(right - left, 0.5))}" height="6"/>',
                draw_line("shared", base, middle - 7, base, middle + 7),
            ],
        )


def draw_share(share: float) -> Markup:
    """Draw a share as a small bar on a track."""
    width = 56
    part = min(max(share, 0.0), 1.0) * width
    return mark_svg(
        f'<svg class="share-bar" viewBox="0 0 {width} 6" width="{width}" height="6"'
        f' aria-hidden="true"><rect class="track" width="{width}" height="6"/>'
        f'<rect class="more" width="{show_number(part)}" height="6"/></svg>'
    )


def _draw_small(kind: str, parts: Sequence[str]) -> Markup:
    return mark_svg(
        f'<svg class="{kind}" viewBox="0 0 {BAR_WIDTH} {BAR_HEIGHT}" aria-hidden="true">'
        f"{''.join(parts)}</svg>"
    )


def _anchor_inside(x: float) -> str:
    """Return the text anchor that keeps a label at `x` inside the chart."""
    return "end" if x > WIDTH / 2 else "start"


def _nudge(anchor: str) -> float:
    return 5.0 if anchor == "start" else 0.0
