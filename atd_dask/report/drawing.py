"""Elements of charts as inline SVG: axes, lines, dots and text.

Colours come from classes in the style sheet, so that charts follow the theme of the page.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

WIDTH = 440
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 22, 40


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


def mark_svg(svg: str) -> Markup:
    """Declare SVG that is made of numbers and escaped text as safe."""
    return Markup(svg)  # noqa: S704 - made of numbers and of text that is escaped


def draw_chart(height: float, title: str, parts: Sequence[str]) -> Markup:
    """Return a chart of the usual width from its parts; `title` says what it shows."""
    return mark_svg(
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height}" role="img"'
        f' aria-label="{escape(title)}">{"".join(parts)}</svg>'
    )


def draw_bottom_axis(across: Axis, y: float, name: str, whole: bool = False) -> list[str]:
    """Return a horizontal axis with ticks and its name."""
    parts = [draw_line("axis", across.start, y, across.end, y)]
    for tick in across.ticks():
        if whole and tick != int(tick):
            continue
        x = across.place(tick)
        parts += [
            draw_line("axis", x, y, x, y + 4),
            draw_text("tick", x, y + 17, _show_tick(tick), "middle"),
        ]
    parts.append(draw_text("caption", across.end, y + 34, name, "end"))
    return parts


def draw_left_axis(
    up: Axis, most: int = 4, whole: bool = False, start: float = LEFT, form: str = ""
) -> list[str]:
    """Return grid lines with labels on the left."""
    parts = []
    for tick in up.ticks(most):
        if whole and tick != int(tick):
            continue
        y = up.place(tick)
        parts += [
            draw_line("grid", start, y, WIDTH - RIGHT, y),
            draw_text("tick", start - 6, y + 4, form.format(tick) or _show_tick(tick), "end"),
        ]
    return parts


def _show_tick(value: float) -> str:
    text = f"{value:,.6g}" if abs(value) < 1e6 else f"{value / 1e6:,.6g}M"
    return text.replace("-", "−")


def draw_rectangle(kind: str, x: float, y: float, width: float, base: float) -> str:
    """Return a bar from `y` down to `base`."""
    return (
        f'<rect class="{kind}" x="{show_number(x)}" y="{show_number(y)}"'
        f' width="{show_number(width)}" height="{show_number(base - y)}"/>'
    )


def draw_circle(kind: str, x: float, y: float, radius: float) -> str:
    return (
        f'<circle class="{kind}" cx="{show_number(x)}" cy="{show_number(y)}"'
        f' r="{show_number(radius)}"/>'
    )


def draw_curve(points: Iterable[tuple[float, float]], kind: str = "curve") -> str:
    joined = " ".join(f"{show_number(x)},{show_number(y)}" for x, y in points)
    return f'<polyline class="{kind}" points="{joined}"/>'


def draw_line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return (
        f'<line class="{kind}" x1="{show_number(x1)}" y1="{show_number(y1)}"'
        f' x2="{show_number(x2)}" y2="{show_number(y2)}"/>'
    )


def draw_text(kind: str, x: float, y: float, text: str, anchor: str) -> str:
    return (
        f'<text class="{kind}" x="{show_number(x)}" y="{show_number(y)}" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )


def show_number(value: float) -> str:
    """Format a coordinate, as short as possible."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
