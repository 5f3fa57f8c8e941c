"""Charts as inline SVG. They contain only numbers and fixed words, never text of documents.

Colours come from classes in the style sheet, so that charts follow the theme of the page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from atd_dask.report.numbers import show_decade, show_decimal

WIDTH = 440
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 22, 40
MOST_BINS = 60
BAR_WIDTH, BAR_HEIGHT, BAR_MARGIN = 420, 16, 14
LOWEST_DECADE = -6


@dataclass(frozen=True)
class Axis:
    """Maps values from `low` to `high` to pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def of(cls, values: Sequence[float], start: float, end: float, zero: bool = False) -> Axis:
        """Return an axis that covers all values, and 0 if `zero` is set; it is never empty."""
        low, high = min(values), max(values)
        if zero:
            low, high = min(low, 0.0), max(high, 0.0)
        if high == low:
            high = low + max(abs(low), 1.0)
        return cls(low, high, start, end)

    def place(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, most: int = 5) -> list[float]:
        """Return round values on the axis, at most `most` + 1 of them."""
        span = self.high - self.low
        power = 10.0 ** math.floor(math.log10(span / most))
        step = next(power * f for f in (1, 2, 5, 10) if power * f * most >= span * (1 - 1e-9))
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [n * step for n in range(first, last + 1)]


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
        _rectangle("bar", across.start + n * width, up.place(count), max(width - 0.6, 0.6), base)
        for n, count in enumerate(counts)
        if count
    ]
    here = across.place(own)
    anchor = _anchor_inside(here)
    parts = [
        *_draw_left_axis(up, whole=True),
        *bars,
        *_draw_bottom_axis(across, base, name),
        _line("own", here, TOP, here, base),
        _text("own-label", here + _nudge(anchor), TOP - 8, "this cluster", anchor),
        _text("caption", 0, TOP - 8, caption, "start") if here > WIDTH * 0.7 else "",
    ]
    return _draw(height, title, parts)


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
    points = " ".join(
        f"{_round(across.place(n))},{_round(up.place(score))}" for n, score in enumerate(scores, 1)
    )
    radius = 2.6 if len(scores) <= 120 else 1.4
    dots = [
        f'<circle class="{"failed" if bad else "dot"}" cx="{_round(across.place(n))}"'
        f' cy="{_round(low.place(share))}" r="{radius}"/>'
        for n, (share, bad) in enumerate(zip(shares, failed, strict=True), 1)
    ]
    parts = [
        *_draw_left_axis(up, most=4),
        f'<polyline class="curve" points="{points}"/>',
        f'<circle class="dot" cx="{_round(across.place(len(scores)))}"'
        f' cy="{_round(up.place(scores[-1]))}" r="2.6"/>',
        _text("caption", 0, TOP - 8, "score of the cluster", "start"),
        *_draw_left_axis(low, most=3, form="{:.0%}"),
        *dots,
        _text(
            "caption",
            0,
            middle + 34,
            "share of the new topic in the document that joins next",
            "start",
        ),
        *_draw_bottom_axis(across, base, "documents in the cluster", whole=True),
    ]
    title = (
        f"Growth in {len(scores)} steps: the score goes from {show_decimal(scores[0])} to"
        f" {show_decimal(scores[-1])}, the share from {shares[0]:.0%} to {shares[-1]:.0%}."
    )
    return _draw(height, title, parts)


def draw_orders(orders: Sequence[int], bics: Sequence[float], chosen: int) -> Markup:
    """Draw the BIC of the null model for each number of topics."""
    height, base = 230, 230 - BOTTOM
    across = Axis.of(orders, LEFT + 18, WIDTH - RIGHT)
    up = Axis.of(bics, base - 28, TOP + 8)  # with room for a label below the minimum
    pairs = sorted(zip(orders, bics, strict=True))
    points = " ".join(f"{_round(across.place(n))},{_round(up.place(bic))}" for n, bic in pairs)
    best = next(bic for n, bic in pairs if n == chosen)
    x, y = across.place(chosen), up.place(best)
    anchor = _anchor_inside(x)
    parts = [
        *_draw_left_axis(up, most=4, start=LEFT + 18),
        f'<polyline class="curve" points="{points}"/>',
        *(
            f'<circle class="dot" cx="{_round(across.place(n))}" cy="{_round(up.place(b))}" r="2"/>'
            for n, b in pairs
        ),
        f'<circle class="chosen" cx="{_round(x)}" cy="{_round(y)}" r="4.5"/>',
        _text("own-label", x, y + 20, f"{chosen} topics", anchor),
        _text("caption", 0, TOP - 8, "BIC", "start"),
        *_draw_bottom_axis(across, base, "topics", whole=True),
    ]
    title = f"BIC for {len(pairs)} numbers of topics; the lowest, {best:,.0f}, is at {chosen}."
    return _draw(height, title, parts)


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
    parts = [*_draw_bottom_axis(across, base, figure)]
    for number, row in enumerate(rows):
        y = TOP + step * (number + 0.5)
        parts += [
            _text("tick", start - 8, y + 4, row.name, "end"),
            _line("grid", across.start, y, across.end, y),
            _line("own", across.place(row.low), y, across.place(row.high), y),
            f'<circle class="dot" cx="{_round(across.place(row.mean))}" cy="{_round(y)}" r="4"/>',
        ]
        if row.other is not None:
            x = across.place(row.other)
            parts.append(_line("shared", x, y - 8, x, y + 8))
    told = ", ".join(f"{row.name} {row.mean:.2f}" for row in rows)
    return _draw(height, f"{figure}: {told}.", parts)


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
            _text("tick", self.place(10.0**exponent), 12, show_decade(exponent), "middle")
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
                    _line("grid", x, 0, x, BAR_HEIGHT)
                    for e in range(self.low, self.high + 1)
                    for x in [self.place(10.0**e)]
                ),
                f'<rect class="{kind}" x="{_round(left)}" y="{_round(middle - 3)}"'
                f' width="{_round(max(right - left, 0.5))}" height="6"/>',
                _line("shared", base, middle - 7, base, middle + 7),
            ],
        )


def draw_share(share: float) -> Markup:
    """Draw a share as a small bar on a track."""
    width = 56
    part = min(max(share, 0.0), 1.0) * width
    return _mark(
        f'<svg class="share-bar" viewBox="0 0 {width} 6" width="{width}" height="6"'
        f' aria-hidden="true"><rect class="track" width="{width}" height="6"/>'
        f'<rect class="more" width="{_round(part)}" height="6"/></svg>'
    )


def _mark(svg: str) -> Markup:
    return Markup(svg)  # noqa: S704 - made of numbers and of text that is escaped


def _draw(height: float, title: str, parts: Sequence[str]) -> Markup:
    return _mark(
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height}" role="img"'
        f' aria-label="{escape(title)}">{"".join(parts)}</svg>'
    )


def _draw_small(kind: str, parts: Sequence[str]) -> Markup:
    return _mark(
        f'<svg class="{kind}" viewBox="0 0 {BAR_WIDTH} {BAR_HEIGHT}" aria-hidden="true">'
        f"{''.join(parts)}</svg>"
    )


def _draw_bottom_axis(across: Axis, y: float, name: str, whole: bool = False) -> list[str]:
    parts = [_line("axis", across.start, y, across.end, y)]
    for tick in across.ticks():
        if whole and tick != int(tick):
            continue
        x = across.place(tick)
        parts += [
            _line("axis", x, y, x, y + 4),
            _text("tick", x, y + 17, _show_tick(tick), "middle"),
        ]
    parts.append(_text("caption", across.end, y + 34, name, "end"))
    return parts


def _draw_left_axis(
    up: Axis, most: int = 4, whole: bool = False, start: float = LEFT, form: str = ""
) -> list[str]:
    parts = []
    for tick in up.ticks(most):
        if whole and tick != int(tick):
            continue
        y = up.place(tick)
        parts += [
            _line("grid", start, y, WIDTH - RIGHT, y),
            _text("tick", start - 6, y + 4, form.format(tick) or _show_tick(tick), "end"),
        ]
    return parts


def _show_tick(value: float) -> str:
    text = f"{value:,.6g}" if abs(value) < 1e6 else f"{value / 1e6:,.6g}M"
    return text.replace("-", "−")


def _anchor_inside(x: float) -> str:
    """Return the text anchor that keeps a label at `x` inside the chart."""
    return "end" if x > WIDTH / 2 else "start"


def _nudge(anchor: str) -> float:
    return 5.0 if anchor == "start" else 0.0


def _rectangle(kind: str, x: float, y: float, width: float, base: float) -> str:
    return (
        f'<rect class="{kind}" x="{_round(x)}" y="{_round(y)}" width="{_round(width)}"'
        f' height="{_round(base - y)}"/>'
    )


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return (
        f'<line class="{kind}" x1="{_round(x1)}" y1="{_round(y1)}"'
        f' x2="{_round(x2)}" y2="{_round(y2)}"/>'
    )


def _text(kind: str, x: float, y: float, text: str, anchor: str) -> str:
    return (
        f'<text class="{kind}" x="{_round(x)}" y="{_round(y)}" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )


def _round(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
