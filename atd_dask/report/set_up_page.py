"""The page of a calibration: what a set-up finds, and how often it raises a false alarm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from atd_dask.evaluation.rates import Rate
from atd_dask.evaluation.trials import FoundRate, SetUpFigures, say_figures
from atd_dask.report.drawing import (
    BOTTOM,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    draw_chart,
    draw_circle,
    draw_curve,
    draw_left_axis,
    draw_line,
    draw_text,
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
    """Everything that the page shows."""

    name: str
    sentence: str
    false_alarms: str
    charts: Sequence[tuple[str, Markup]]
    rows: Sequence[CellRow]
    topics: str
    method: str


def render_figures(figures: SetUpFigures) -> bytes:
    """Render the page. The same figures give the same bytes."""
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
                draw_found([one for one in figures.found if one.share == share]),
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
        topics=f"The held-out topics are {len(figures.topics)} {kind}: {list_some(figures.topics)}."
        if figures.topics
        else "",
        method=(
            f"Batches of {figures.batch:,} documents were drawn from {figures.normal:,} normal ones"
            f" and compared with the rest; p-values come from {figures.searches} searches with"
            " nothing planted."
        ),
    )


def _say_false_alarms(rate: Rate, level: float) -> str:
    asked = f"at a level of {level:g}, {level * rate.of:.3g} are expected"
    return (
        f"{rate.happened} of {rate.of:,} batches with nothing in them raised an alarm; {asked}."
        f" With 95 % confidence, the true rate is between {rate.low:.2%} and {rate.high:.2%}."
    )


def draw_found(found: Sequence[FoundRate]) -> Markup:
    """Draw how often groups are found, by size, with intervals."""
    across = Axis(-0.5, len(found) - 0.5, LEFT + 8, WIDTH - RIGHT)
    up = Axis(0, 1, BASE, TOP + 10)
    parts = draw_left_axis(up, start=LEFT + 8, form="{:.0%}")
    parts.append(draw_line("axis", across.start, BASE, across.end, BASE))
    points = []
    for index, one in enumerate(found):
        x, y = across.place(index), up.place(one.rate.share)
        points.append((x, y))
        parts += [
            draw_line("range", x, up.place(one.rate.low), x, up.place(one.rate.high)),
            draw_circle("dot", x, y, 4),
            draw_text("tick", x, BASE + 17, str(one.size), "middle"),
        ]
    parts += [
        draw_curve(points),
        draw_text("caption", 0, TOP - 8, "groups found", "start"),
        draw_text("caption", across.end, BASE + 34, "documents in the group", "end"),
    ]
    told = ", ".join(f"{one.rate.share:.0%} with {one.size}" for one in found)
    return draw_chart(HEIGHT, f"Groups found, by their number of documents: {told}.", parts)
