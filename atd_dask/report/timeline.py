"""Charts over the sweeps of a repository. They too hold numbers and fixed words alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from atd_dask.report.charts import (
    BOTTOM,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    _draw,
    _draw_bottom_axis,
    _draw_left_axis,
    _line,
    _rectangle,
    _round,
    _text,
)
from atd_dask.report.numbers import show_decade

HEIGHT = 210
BASE = HEIGHT - BOTTOM
MARGIN = LEFT + 8
TREND_WIDTH, TREND_HEIGHT = 120, 28


def draw_documents(
    sweeps: Sequence[int], documents: Sequence[int], alarms: Sequence[bool]
) -> Markup:
    """How many documents were new in each sweep; those with an alarm stand out."""
    across = _span(sweeps)
    up = Axis(0, max(*documents, 1), BASE, TOP + 6)
    width = max((across.end - across.start) / len(sweeps) * 0.8, 0.8)
    bars = [
        _rectangle(
            "more" if alarm else "bar", across.place(n) - width / 2, up.place(count), width, BASE
        )
        for n, count, alarm in zip(sweeps, documents, alarms, strict=True)
    ]
    title = f"New documents of {len(sweeps)} sweeps, {sum(alarms)} of them with an alarm."
    caption = _text("caption", 0, TOP - 8, "new documents; in colour with an alarm", "start")
    axis = _draw_left_axis(up, whole=True, start=MARGIN)
    return _draw(HEIGHT, title, [*axis, *bars, caption, *_bottom(across)])


def draw_p_values(
    sweeps: Sequence[int],
    points: Sequence[tuple[int, float, int, bool]],
    levels: Sequence[float | None],
) -> Markup:
    """The p-value of each candidate: its sweep, p-value, size, and whether it raised an alarm; and
    as a line the level of each sweep, where it is known."""
    across = _span(sweeps)
    logs = [math.log10(max(p, 1e-12)) for _, p, _, _ in points]
    told = [(n, math.log10(level)) for n, level in zip(sweeps, levels, strict=True) if level]
    up = Axis(math.floor(min([-1.0, *logs, *(log for _, log in told)])), 0, BASE, TOP + 6)
    parts = []
    for decade in range(int(up.low), 1):
        y = up.place(decade)
        parts += [
            _line("grid", MARGIN, y, WIDTH - RIGHT, y),
            _text("tick", MARGIN - 6, y + 4, show_decade(decade) if decade else "1", "end"),
        ]
    line = " ".join(f"{_round(across.place(n))},{_round(up.place(log))}" for n, log in told)
    parts.append(f'<polyline class="level" points="{line}"/>' if told else "")
    for (sweep, _, size, significant), log in zip(points, logs, strict=True):
        radius = min(2 + math.sqrt(size) / 2, 9)
        parts.append(
            f'<circle class="{"dot" if significant else "search-dot"}"'
            f' cx="{_round(across.place(sweep))}" cy="{_round(up.place(log))}"'
            f' r="{_round(radius)}"/>'
        )
    found = sum(significant for *_, significant in points)
    title = f"P-values of {len(points)} candidates, {found} of them with an alarm."
    text = "p-value of each candidate, the larger the more documents; line: level"
    caption = _text("caption", 0, TOP - 8, text, "start")
    return _draw(HEIGHT, title, [*parts, caption, *_bottom(across)])


def draw_course(
    sweeps: Sequence[int],
    values: Sequence[float | None],
    trained: Sequence[int],
    name: str,
    form: str,
) -> Markup:
    """A value that changes from sweep to sweep, and the sweeps that trained the null model anew."""
    across = _span(sweeps)
    told = [(n, value) for n, value in zip(sweeps, values, strict=True) if value is not None]
    if not told:
        return Markup("")
    up = Axis.of([value for _, value in told], BASE - 6, TOP + 10)
    points = " ".join(f"{_round(across.place(n))},{_round(up.place(v))}" for n, v in told)
    dots = [
        f'<circle class="dot" cx="{_round(across.place(n))}" cy="{_round(up.place(v))}" r="1.6"/>'
        for n, v in told
    ]
    lines = [_line("shared", across.place(n), TOP, across.place(n), BASE) for n in trained]
    first, last = told[0][1], told[-1][1]
    title = (
        f"{name}: from {form.format(first)} in sweep {told[0][0]} to {form.format(last)} in sweep"
        f" {told[-1][0]}; the null model was trained anew {len(trained)} times."
    )
    parts = [
        *_draw_left_axis(up, start=MARGIN, form=form),
        *lines,
        f'<polyline class="curve" points="{points}"/>',
        *dots,
        _text("caption", 0, TOP - 8, name, "start"),
        *_bottom(across),
    ]
    return _draw(HEIGHT, title, parts)


def draw_trend(counts: Sequence[int], documents: Sequence[int]) -> Markup:
    """The share of documents that have some words, sweep by sweep, as a line of its own."""
    shares = [n / max(of, 1) for n, of in zip(counts, documents, strict=True)]
    across = Axis(0, max(len(shares) - 1, 1), 3, TREND_WIDTH - 3)
    up = Axis.of([0.0, *shares], TREND_HEIGHT - 3, 3)
    points = " ".join(
        f"{_round(across.place(n))},{_round(up.place(share))}" for n, share in enumerate(shares)
    )
    title = (
        f"Share of documents with the words in {len(shares)} sweeps, at the end {shares[-1]:.1%}."
    )
    return Markup(  # noqa: S704 - numbers and fixed words
        f'<svg class="trend" viewBox="0 0 {TREND_WIDTH} {TREND_HEIGHT}" role="img"'
        f' width="{TREND_WIDTH}" height="{TREND_HEIGHT}"><title>{title}</title>'
        f'<polyline class="curve" points="{points}"/></svg>'
    )


def _span(sweeps: Sequence[int]) -> Axis:
    return Axis(sweeps[0] - 0.5, max(sweeps[-1], sweeps[0] + 1) + 0.5, MARGIN, WIDTH - RIGHT)


def _bottom(across: Axis) -> list[str]:
    return _draw_bottom_axis(across, BASE, "sweep", whole=True)
