"""Charts over the sweeps of a repository, made only of numbers and fixed words."""

from __future__ import annotations

import math
from collections.abc import Sequence

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
)
from atd_dask.report.numbers import show_decade

HEIGHT = 210
BASE = HEIGHT - BOTTOM
MARGIN = LEFT + 8
TREND_WIDTH, TREND_HEIGHT = 120, 28


def draw_documents(
    sweeps: Sequence[int], documents: Sequence[int], alarms: Sequence[bool]
) -> Markup:
    """Draw how many documents were new in each sweep, in colour if it raised an alarm."""
    across = _span(sweeps)
    up = Axis(0, max(*documents, 1), BASE, TOP + 6)
    width = max((across.end - across.start) / len(sweeps) * 0.8, 0.8)
    bars = [
        draw_rectangle(
            "more" if alarm else "bar", across.place(n) - width / 2, up.place(count), width, BASE
        )
        for n, count, alarm in zip(sweeps, documents, alarms, strict=True)
    ]
    title = f"New documents of {len(sweeps)} sweeps, {sum(alarms)} of them with an alarm."
    caption = draw_text("caption", 0, TOP - 8, "new documents; coloured bars: alarm", "start")
    axis = draw_left_axis(up, whole=True, start=MARGIN)
    return draw_chart(HEIGHT, title, [*axis, *bars, caption, *_bottom(across)])


def draw_p_values(
    sweeps: Sequence[int],
    points: Sequence[tuple[int, float, int, bool]],
    levels: Sequence[float | None],
) -> Markup:
    """Draw the p-value of each candidate, given by its sweep, p-value, size, and whether it raised
    an alarm; and the level of each sweep as a line, if it is known."""
    across = _span(sweeps)
    logs = [math.log10(max(p, 1e-12)) for _, p, _, _ in points]
    told = [(n, math.log10(level)) for n, level in zip(sweeps, levels, strict=True) if level]
    up = Axis(math.floor(min([-1.0, *logs, *(log for _, log in told)])), 0, BASE, TOP + 6)
    parts = []
    for decade in range(int(up.low), 1):
        y = up.place(decade)
        parts += [
            draw_line("grid", MARGIN, y, WIDTH - RIGHT, y),
            draw_text("tick", MARGIN - 6, y + 4, show_decade(decade) if decade else "1", "end"),
        ]
    if told:
        parts.append(draw_curve(((across.place(n), up.place(log)) for n, log in told), "level"))
    for (sweep, _, size, significant), log in zip(points, logs, strict=True):
        radius = min(2 + math.sqrt(size) / 2, 9)
        kind = "dot" if significant else "search-dot"
        parts.append(draw_circle(kind, across.place(sweep), up.place(log), radius))
    found = sum(significant for *_, significant in points)
    title = f"P-values of {len(points)} candidates, {found} of them with an alarm."
    text = "p-values of candidates, larger dots for more documents; line: level"
    caption = draw_text("caption", 0, TOP - 8, text, "start")
    return draw_chart(HEIGHT, title, [*parts, caption, *_bottom(across)])


def draw_course(
    sweeps: Sequence[int],
    values: Sequence[float | None],
    trained: Sequence[int],
    name: str,
    form: str,
) -> Markup:
    """Draw a value that changes from sweep to sweep, and the sweeps that retrained the null
    model."""
    across = _span(sweeps)
    told = [(n, value) for n, value in zip(sweeps, values, strict=True) if value is not None]
    if not told:
        return Markup("")
    up = Axis.of([value for _, value in told], BASE - 6, TOP + 10)
    points = [(across.place(n), up.place(value)) for n, value in told]
    lines = [draw_line("shared", across.place(n), TOP, across.place(n), BASE) for n in trained]
    first, last = told[0][1], told[-1][1]
    title = (
        f"{name}: from {form.format(first)} in sweep {told[0][0]} to {form.format(last)} in sweep"
        f" {told[-1][0]}; the null model was retrained {len(trained)} times."
    )
    parts = [
        *draw_left_axis(up, start=MARGIN, form=form),
        *lines,
        draw_curve(points),
        *(draw_circle("dot", *point, 1.6) for point in points),
        draw_text("caption", 0, TOP - 8, name, "start"),
        *_bottom(across),
    ]
    return draw_chart(HEIGHT, title, parts)


def draw_trend(counts: Sequence[int], documents: Sequence[int]) -> Markup:
    """Draw the share of documents that have some words, sweep by sweep, as a sparkline."""
    shares = [n / max(of, 1) for n, of in zip(counts, documents, strict=True)]
    across = Axis(0, max(len(shares) - 1, 1), 3, TREND_WIDTH - 3)
    up = Axis.of([0.0, *shares], TREND_HEIGHT - 3, 3)
    points = ((across.place(n), up.place(share)) for n, share in enumerate(shares))
    title = (
        f"Share of documents with the words in {len(shares)} sweeps, at the end {shares[-1]:.1%}."
    )
    return mark_svg(
        f'<svg class="trend" viewBox="0 0 {TREND_WIDTH} {TREND_HEIGHT}" role="img"'
        f' width="{TREND_WIDTH}" height="{TREND_HEIGHT}"><title>{title}</title>'
        f"{draw_curve(points)}</svg>"
    )


def _span(sweeps: Sequence[int]) -> Axis:
    return Axis(sweeps[0] - 0.5, max(sweeps[-1], sweeps[0] + 1) + 0.5, MARGIN, WIDTH - RIGHT)


def _bottom(across: Axis) -> list[str]:
    return draw_bottom_axis(across, BASE, "sweep", whole=True)
