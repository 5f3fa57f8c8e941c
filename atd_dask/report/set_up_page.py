"""The page of a calibration: what a set-up finds, and how often it cries wolf."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from atd_dask.evaluation.trials import FoundRate, Rate, SetUpFigures, say_figures
from atd_dask.report.charts import (
    BOTTOM,
    LEFT,
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
from atd_dask.report.page import fill, read
from atd_dask.wording import clean, list_some

HEIGHT = 250
BASE = HEIGHT - BOTTOM


@dataclass(frozen=True)
class CellRow:
    """A row of the table."""

    share: str
    size: int
    found: str
    range: str


@dataclass(frozen=True)
class SetUpView:
    """All that the page shows."""

    name: str
    sentence: str
    false_alarms: str
    charts: Sequence[tuple[str, Markup]]
    rows: Sequence[CellRow]
    topics: str
    method: str


def render_figures(figures: SetUpFigures) -> bytes:
    """The page. The same figures give the same bytes."""
    return fill("set_up.html.j2", read("page.css"), "", view=make_view(figures))


def make_view(figures: SetUpFigures) -> SetUpView:
    shares = list(dict.fromkeys(one.share for one in figures.found))
    kind = "labels of the normal documents" if figures.labelled else "topics of the null model"
    return SetUpView(
        name=clean(figures.name),
        sentence=say_figures(figures),
        false_alarms=_say_false_alarms(figures.false_alarms, figures.level),
        charts=[
            (
                f"{share:.0%} of each document on the new subject",
                draw_curve([one for one in figures.found if one.share == share]),
            )
            for share in shares
        ],
        rows=[
            CellRow(
                f"{one.share:.0%}",
                one.size,
                f"{one.rate.happened} of {one.rate.of}",
                f"{one.rate.low:.0%} to {one.rate.high:.0%}",
            )
            for one in figures.found
        ],
        topics=f"Held out were {len(figures.topics)} {kind}: {list_some(figures.topics)}."
        if figures.topics
        else "",
        method=(
            f"Batches of {figures.batch:,} documents were drawn from {figures.normal:,} normal ones"
            f" and compared with the rest; {figures.searches} searches with nothing planted gave"
            " each its p-value."
        ),
    )


def _say_false_alarms(rate: Rate, level: float) -> str:
    asked = f"at the level of {level:g} that should be {level * rate.of:.3g}"
    return (
        f"{rate.happened} of {rate.of:,} batches with nothing in them raised an alarm; {asked}."
        f" The true rate is between {rate.low:.2%} and {rate.high:.2%}, with a confidence of 95 %."
    )


def draw_curve(found: Sequence[FoundRate]) -> Markup:
    """How often groups are found, by their size, each with its interval."""
    across = Axis(-0.5, len(found) - 0.5, LEFT + 8, WIDTH - RIGHT)
    up = Axis(0, 1, BASE, TOP + 10)
    parts = _draw_left_axis(up, start=LEFT + 8, form="{:.0%}")
    parts.append(_line("axis", across.start, BASE, across.end, BASE))
    points = []
    for place, one in enumerate(found):
        x, y = across.place(place), up.place(one.rate.share)
        points.append(f"{_round(x)},{_round(y)}")
        parts += [
            _line("range", x, up.place(one.rate.low), x, up.place(one.rate.high)),
            f'<circle class="dot" cx="{_round(x)}" cy="{_round(y)}" r="4"/>',
            _text("tick", x, BASE + 17, str(one.size), "middle"),
        ]
    parts += [
        f'<polyline class="curve" points="{" ".join(points)}"/>',
        _text("caption", 0, TOP - 8, "groups that were found", "start"),
        _text("caption", across.end, BASE + 34, "documents of the group", "end"),
    ]
    told = ", ".join(f"{one.rate.share:.0%} with {one.size}" for one in found)
    return _draw(HEIGHT, f"Groups found, by their number of documents: {told}.", parts)
