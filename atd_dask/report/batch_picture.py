"""The picture of the batch: every document by how unusual it is, and by the odds that it belongs to
its nearest cluster.

The x axis is the surprise rather than the share of normal documents that surprise less: that share
is close to 1 for nearly all documents of a cluster, so they would overlap. A strip shows where
normal documents are. The y axis, of odds, is linear near 1 : 1 and doubly logarithmic far from it,
so that a thousand to one and a googol to one both have room.

The drawing stays below MOST_BYTES, however many documents there are: if there are many, those
outside clusters are binned into shaded squares, and those in clusters are subsampled.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from atd_dask.report.drawing import Axis
from atd_dask.report.numbers import count, show_decade, show_decimal
from atd_dask.result_types import BatchScores, ClusterResult

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 86, 12, 34, 56
MOST_DOTS = 2_000  # for documents in no cluster
MOST_MARKS = 1_200  # for documents in clusters
MOST_BYTES = 100_000
CELL = 7
SHADES = ("1 document in no cluster", "2 to 9", "10 to 99", "100 to 999", "1,000 or more")
MOST_NAMED = 12  # clusters with a mark of their own
COLOURS = 6
NAMED_WORDS = 4
# The possible ticks, as powers of ten of the odds, and the odds at which a document is a member.
POWERS = (-1000, -100, -30, -10, -3, 0, 10, 30, 100, 300, 1000, 10_000)
MEMBER = math.log10(99)
FURTHEST = 10_000.0

# Marks, each a closed subpath that starts at the centre.
SHAPES = (
    "m0-4a4 4 0 1 1-.1 0z",  # a disc
    "m0-5l5 9h-10z",  # a triangle
    "m-3-3h7v7h-7z",  # a square
    "m0-5l4 5-4 5-4-5z",  # a diamond
    "m0 5l5-9h-10z",  # a triangle upside down
    "m-1-5h3v4h3v3h-3v3h-3v-3h-3v-3h3z",  # a cross
)


@dataclass(frozen=True)
class Named:
    """An entry of the legend."""

    mark: Markup
    text: str
    cluster: int | None = None  # that it links to
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class BatchPicture:
    """The picture, its caption and its legend."""

    drawing: Markup
    sentence: str
    legend: tuple[Named, ...]


@dataclass(frozen=True)
class Dot:
    """A document with a surprise."""

    surprise: float
    power: float  # log10 of the odds that it belongs to its nearest cluster
    cluster: int  # 0 for none


def view_batch(
    scores: BatchScores | None,
    clusters: Sequence[ClusterResult],
    about: Mapping[int, Sequence[str]],
) -> BatchPicture | None:
    """Draw the scores of a batch. `clusters` are the significant ones, and `about` has their words.
    Return None if there is nothing to draw."""
    if scores is None:
        return None
    owners = {row: cluster.index for cluster in clusters for row in cluster.rows}
    dots = [
        Dot(surprise, _find_power(log_odds), owners.get(row, 0))
        for row, surprise, log_odds in zip(
            scores.row, scores.surprise, scores.log_odds, strict=True
        )
        if surprise is not None
    ]
    if not dots:
        return None
    missing = len(scores.row) - len(dots)
    usual = [value for value in scores.usual if value is not None]
    strip = (usual[0], usual[-1]) if usual else None
    if not clusters:
        return _picture_bars(dots, strip, missing)
    return _picture_dots(dots, strip, missing, [c.index for c in clusters], about)


def _find_power(log_odds: float | None) -> float:
    """Return log10 of the odds, clipped; missing odds are the lowest."""
    if log_odds is None or math.isnan(log_odds):
        return -FURTHEST
    return min(max(log_odds / math.log(10), -FURTHEST), FURTHEST)


def _picture_dots(
    dots: Sequence[Dot],
    strip: tuple[float, float] | None,
    missing: int,
    numbers: Sequence[int],
    about: Mapping[int, Sequence[str]],
) -> BatchPicture:
    plot = _Plot.of(dots, strip)
    alone = [dot for dot in dots if not dot.cluster]
    binned = len(alone) > MOST_DOTS
    inside = [dot for dot in dots if dot.cluster]
    every = max(-(-len(inside) // MOST_MARKS), 1)
    marked: dict[int, list[Dot]] = {number: [] for number in numbers}
    for dot in inside[::every]:
        marked[dot.cluster].append(dot)
    cells = _count_cells(plot, alone) if binned else []
    parts = [
        *plot.draw_frame(),
        *(_draw_cells(n, some) for n, some in enumerate(cells, 1) if some),
        "" if binned else _draw_path("alone", "h0", plot, alone),
        *(
            _draw_path(*_find_mark(place), plot, marked[number])
            # Largest first, so that small clusters are on top.
            for place, number in sorted(
                enumerate(numbers), key=lambda pair: (-len(marked[pair[1]]), pair[0])
            )
        ),
    ]
    sizes = ", ".join(
        f"{sum(dot.cluster == number for dot in inside):,} in cluster {number}"
        for number in numbers[:MOST_NAMED]
    )
    title = (
        f"{count(len(dots), 'document')} by surprise and by the odds of the nearest cluster:"
        f" {sizes}, {len(alone):,} in none."
    )
    return BatchPicture(
        _draw(title, parts),
        _say_dots(binned, every, missing, strip is not None),
        tuple(_list_legend(numbers, about, cells, bool(alone))),
    )


def _picture_bars(
    dots: Sequence[Dot], strip: tuple[float, float] | None, missing: int
) -> BatchPicture:
    """Draw a histogram of the surprise: without a cluster there are no odds."""
    plot = _Plot.of(dots, strip, pile=True)
    n_bins = 48
    counts = [0] * n_bins
    for dot in dots:
        part = (dot.surprise - plot.across.low) / (plot.across.high - plot.across.low)
        counts[min(int(part * n_bins), n_bins - 1)] += 1
    up = Axis(0, max(counts), HEIGHT - BOTTOM, TOP + 8)
    width = (plot.across.end - plot.across.start) / n_bins
    bars = [
        f'<rect class="bar" x="{plot.across.start + n * width:.1f}" y="{up.place(number):.1f}"'
        f' width="{width - 1:.1f}" height="{up.start - up.place(number):.1f}"/>'
        for n, number in enumerate(counts)
        if number
    ]
    title = (
        f"{count(len(dots), 'document')} by surprise, from"
        f" {show_decimal(min(dot.surprise for dot in dots))} to"
        f" {show_decimal(max(dot.surprise for dot in dots))} nats per word."
    )
    sentence = (
        "Number of documents by how badly the normal topics explain them; the further to the right,"
        " the worse. There is no cluster that they could belong to."
    )
    sentence += _say_strip(strip is not None) + _say_missing(missing)
    ticks = [
        f'<text class="tick" x="{LEFT - 8}" y="{up.place(tick) + 4:.1f}" text-anchor="end">'
        f"{tick:,.0f}</text>"
        for tick in up.ticks(4)
        if tick == int(tick)
    ]
    frame = [*plot.draw_strip(), *ticks, *bars, *plot.draw_bottom(), _caption("documents")]
    return BatchPicture(_draw(title, frame), sentence, ())


@dataclass(frozen=True)
class _Plot:
    """Maps documents to positions."""

    across: Axis
    up: Axis  # of bent odds
    strip: tuple[float, float] | None

    @classmethod
    def of(
        cls, dots: Sequence[Dot], strip: tuple[float, float] | None, pile: bool = False
    ) -> _Plot:
        surprises = [dot.surprise for dot in dots]
        across = Axis.of([*surprises, *(strip or ())], LEFT, WIDTH - RIGHT)
        # Clipped odds do not stretch the axis: that would leave no room for the others.
        finite = [dot.power for dot in dots if abs(dot.power) < FURTHEST] or [0.0]
        low, high = (0.0, 1.0) if pile else (min(*finite, -3.0), max(*finite, 3.0))
        margin = 0.12
        up = Axis(_bend(low) - margin, _bend(high) + margin, HEIGHT - BOTTOM, TOP)
        room = 0.02 * (across.high - across.low)
        across = Axis(across.low - room, across.high + room, across.start, across.end)
        return cls(across, up, strip)

    def place(self, dot: Dot) -> tuple[int, int]:
        bent = min(max(_bend(dot.power), self.up.low), self.up.high)
        return round(self.across.place(dot.surprise)), round(self.up.place(bent))

    def draw_frame(self) -> Iterator[str]:
        yield from self.draw_strip()
        member, last = self.up.place(_bend(MEMBER)), math.inf
        for power in POWERS:
            bent = _bend(power)
            if not self.up.low <= bent <= self.up.high:
                continue
            y = self.up.place(bent)
            yield f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>'
            # Leave room for large letters, as on a small screen.
            if min(last - y, abs(member - y)) >= 24:
                yield _tick_left(y, _show_odds(power))
                last = y
        yield (
            f'<line class="member" x1="{LEFT}" y1="{member:.1f}" x2="{WIDTH - RIGHT}"'
            f' y2="{member:.1f}"/>'
        )
        yield _tick_left(member, "99 : 1")
        yield from self.draw_bottom()
        yield _caption("odds that it belongs to its nearest cluster")

    def draw_strip(self) -> Iterator[str]:
        if self.strip is not None:
            left, right = (self.across.place(value) for value in self.strip)
            yield (
                f'<rect class="usual" x="{left:.1f}" y="{TOP}" width="{right - left:.1f}"'
                f' height="{HEIGHT - BOTTOM - TOP}"/>'
            )

    def draw_bottom(self) -> Iterator[str]:
        y = HEIGHT - BOTTOM
        yield f'<line class="axis" x1="{LEFT}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}"/>'
        for tick in self.across.ticks():
            x = self.across.place(tick)
            yield f'<line class="axis" x1="{x:.1f}" y1="{y}" x2="{x:.1f}" y2="{y + 4}"/>'
            yield (
                f'<text class="tick" x="{x:.1f}" y="{y + 21}" text-anchor="middle">'
                f"{escape(f'{tick:.6g}'.replace('-', '−'))}</text>"
            )
        yield (
            f'<text class="caption" x="{WIDTH - RIGHT}" y="{HEIGHT - 8}" text-anchor="end">'
            "surprise (nats per word)</text>"
        )


def _bend(power: float) -> float:
    return math.asinh(power)


def _show_odds(power: int) -> str:
    if power == 0:
        return "1 : 1"
    return f"{show_decade(power)} : 1" if power > 0 else f"1 : {show_decade(-power)}"


def _tick_left(y: float, text: str) -> str:
    return f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'


def _caption(text: str) -> str:
    return f'<text class="caption" x="0" y="16" text-anchor="start">{text}</text>'


def _draw_path(kind: str, shape: str, plot: _Plot, dots: Iterable[Dot]) -> str:
    """Draw marks of one kind as one path; marks in the same place are drawn once."""
    places = dict.fromkeys(plot.place(dot) for dot in dots)
    if not places:
        return ""
    pieces = "".join(f"M{x} {y}{shape}" for x, y in places)
    return f'<path class="{kind}" d="{pieces}"/>'


def _count_cells(plot: _Plot, dots: Iterable[Dot]) -> list[list[tuple[int, int]]]:
    """Bin documents into squares, and return the centres of the squares of each shade."""
    counts: dict[tuple[int, int], int] = {}
    for dot in dots:
        x, y = plot.place(dot)
        cell = (x - LEFT) // CELL * CELL + LEFT + 3, (y - TOP) // CELL * CELL + TOP + 3
        counts[cell] = counts.get(cell, 0) + 1
    shades: list[list[tuple[int, int]]] = [[] for _ in SHADES]
    for cell, number in sorted(counts.items()):
        shades[0 if number == 1 else min(len(str(number)), len(SHADES) - 1)].append(cell)
    return shades


def _draw_cells(shade: int, cells: Iterable[tuple[int, int]]) -> str:
    pieces = "".join(f"M{x} {y}h0" for x, y in cells)
    return f'<path class="cell shade-{shade}" d="{pieces}"/>'


def _find_mark(place: int) -> tuple[str, str]:
    """Return the class and the shape of a cluster by its index; the last ones share theirs."""
    if place >= MOST_NAMED:
        return "mark other", SHAPES[0]
    shape = SHAPES[(place + place // COLOURS) % len(SHAPES)]
    return f"mark colour-{place % COLOURS + 1}", shape


def _list_legend(
    numbers: Sequence[int],
    about: Mapping[int, Sequence[str]],
    cells: Sequence[Sequence[object]],
    alone: bool,
) -> Iterator[Named]:
    for place, number in enumerate(numbers[:MOST_NAMED]):
        kind, shape = _find_mark(place)
        words = tuple(about.get(number, ()))[:NAMED_WORDS]
        yield Named(_draw_key(kind, shape), f"cluster {number}", number, words)
    if len(numbers) > MOST_NAMED:
        text = count(len(numbers) - MOST_NAMED, "other cluster")
        yield Named(_draw_key(*_find_mark(MOST_NAMED)), text)
    for shade, some in enumerate(cells, 1):
        if some:
            yield Named(_draw_key(f"cell shade-{shade}", "h0"), SHADES[shade - 1])
    if alone and not cells:
        yield Named(_draw_key("alone", "h0"), "in no cluster")


def _draw_key(kind: str, shape: str) -> Markup:
    return _mark(
        '<svg class="key" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">'
        f'<path class="{kind}" d="M8 8{shape}"/></svg>'
    )


def _say_dots(binned: bool, every: int, missing: int, strip: bool) -> str:
    said = "Each mark is a document" if not binned else "Each mark is a document of a cluster"
    said += "; the further to the right, the worse the normal topics explain it. From the dashed"
    said += " line up, the odds that it belongs to its nearest cluster are 99 to 1 or better."
    said += _say_strip(strip)
    if binned:
        said += " Documents in no cluster are counted in squares, and the shade shows how many."
    if every > 1:
        said += f" One in {every} documents of clusters is drawn."
    return said + _say_missing(missing)


def _say_strip(strip: bool) -> str:
    return " Nine in ten normal documents lie in the shaded strip." if strip else ""


def _say_missing(missing: int) -> str:
    if not missing:
        return ""
    verb = "is" if missing == 1 else "are"
    return f" {count(missing, 'document')} without known words {verb} left out."


def _draw(title: str, parts: Iterable[str]) -> Markup:
    return _mark(
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        f' aria-label="{escape(title)}">{"".join(parts)}</svg>'
    )


def _mark(svg: str) -> Markup:
    return Markup(svg)  # noqa: S704 - made of numbers and of text that is escaped
