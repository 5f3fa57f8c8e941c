from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atd_dask.report.charts import (
    BAR_WIDTH,
    Decades,
    draw_growth,
    draw_histogram,
    draw_orders,
    draw_searches,
    draw_share,
)
from atd_dask.report.drawing import WIDTH, Axis
from atd_dask.report.numbers import (
    count,
    show_decimal,
    show_p_value,
    show_probability,
    show_ratio,
    spell,
)

numbers = st.floats(-1e7, 1e7).map(lambda value: round(value, 6))
shares = st.floats(0, 1)


def check_drawing(svg: str) -> ElementTree.Element:
    """It is well formed, and nothing is outside its width or below its height."""
    root = ElementTree.fromstring(svg)
    width, height = map(float, (root.get("viewBox") or "").split()[2:])
    for element in root.iter():
        for name in ("x", "x1", "x2", "cx"):
            assert -0.01 <= float(element.get(name, "0")) <= width + 0.01
        for name in ("y", "y1", "y2", "cy"):
            assert -0.01 <= float(element.get(name, "0")) <= height + 0.01
        for name in ("width", "height"):
            assert float(element.get(name, "0")) >= 0
    return root


@given(st.lists(numbers, min_size=1), numbers)
def test_histogram(scores: list[float], own: float) -> None:
    root = check_drawing(draw_histogram(scores, own))
    (line,) = root.findall("line[@class='own']")
    bars = root.findall("rect[@class='bar']")
    assert bars
    left = min(float(bar.get("x", "")) for bar in bars)
    if own < min(scores):
        assert float(line.get("x1", "")) <= left + WIDTH / 40
    assert f"{len(scores):,} bootstrap scores" in root.get("aria-label", "")


def test_the_bars_of_a_histogram_are_its_scores() -> None:
    root = check_drawing(draw_histogram([10.0, 10.1, 50.0, 100.0], 100.0))
    heights = sorted(float(bar.get("height", "")) for bar in root.findall("rect[@class='bar']"))
    assert [round(height / heights[0], 2) for height in heights] == [1, 1, 2]


@given(st.lists(numbers, min_size=1), numbers)
def test_searches(support: list[float], own: float) -> None:
    root = check_drawing(draw_searches(support, own))
    assert len(root.findall("line[@class='own']")) == 1
    assert root.findall("rect[@class='bar']")
    assert f"Support that {len(support)} searches" in root.get("aria-label", "")


@given(st.lists(st.tuples(numbers, shares, st.booleans()), min_size=1))
def test_growth(steps: list[tuple[float, float, bool]]) -> None:
    scores, parts, failed = map(list, zip(*steps, strict=True))
    root = check_drawing(draw_growth(scores, parts, failed))
    assert len(root.findall("circle[@class='failed']")) == sum(failed)
    assert len(root.findall("circle[@class='dot']")) == len(failed) - sum(failed) + 1


@given(st.dictionaries(st.integers(1, 500), numbers, min_size=1))
def test_orders(bics: dict[int, float]) -> None:
    chosen = min(bics, key=lambda n: bics[n])
    root = check_drawing(draw_orders(list(bics), list(bics.values()), chosen))
    assert len(root.findall("circle[@class='dot']")) == len(bics)
    assert f"at {chosen}." in root.get("aria-label", "")


@given(st.lists(st.floats(0, 1), min_size=2))
def test_bars_of_words(probabilities: list[float]) -> None:
    decades = Decades.of(probabilities)
    check_drawing(decades.draw_scale())
    own, shared = probabilities[:2]
    root = check_drawing(decades.draw_bar(own, shared))
    (bar,) = root.findall("rect")
    assert bar.get("class") == ("more" if own >= shared else "less")


def test_the_length_of_a_bar_is_the_logarithm_of_the_ratio() -> None:
    decades = Decades.of([1e-4, 1e-1])
    decade = decades.place(1e-2) - decades.place(1e-3)
    assert decades.place(1e-1) - decades.place(1e-4) == pytest.approx(3 * decade)
    assert decades.place(1e-9) == decades.place(1e-4) < decades.place(1e-1) < BAR_WIDTH


@given(shares)
def test_share(share: float) -> None:
    assert float(check_drawing(draw_share(share)).findall("rect")[1].get("width", "")) <= 56


@given(st.lists(numbers, min_size=1), st.integers(2, 8))
def test_ticks_are_round_and_on_the_axis(values: list[float], most: int) -> None:
    axis = Axis.of(values, 0, 100)
    ticks = axis.ticks(most)
    assert len(ticks) <= most + 1
    for tick in ticks:
        assert -0.01 <= axis.place(tick) <= 100.01
    if len(ticks) > 1:
        step = ticks[1] - ticks[0]
        digits = step / 10 ** math.floor(math.log10(step) + 1e-9)
        assert round(digits, 6) in (1, 2, 5)


def test_numbers() -> None:
    assert [spell(n) for n in (0, 2, 9, 10, 1200)] == ["no", "two", "nine", "10", "1,200"]
    assert [count(n, "document") for n in (1, 2000)] == ["1\xa0document", "2,000\xa0documents"]
    assert show_decimal(-1234.56) == "−1,234.6"
    assert [show_p_value(p) for p in (1.0, 0.0784, 1 / 1001, 1 / 20001)] == [
        "1",
        "0.078",
        "0.001",
        "5.0×10⁻⁵",
    ]
    assert [show_probability(p) for p in (1.0, 0.0426, 3.6e-5, 4.07e-9, 0.0)] == [
        "1.0",
        "0.043",
        "0.000036",
        "4.1×10⁻⁹",
        "0",
    ]
    assert [show_ratio(p, 0.001) for p in (0.5, 0.0018, 0.001, 1e-4, 1e-9, 0.0)] == [
        "× 500",
        "× 1.8",
        "× 1.0",
        "÷ 10",
        "÷ 1.0×10⁶",
        "–",
    ]


def test_charts_hold_no_style_of_their_own() -> None:
    svg = draw_histogram([1.0], 2.0) + draw_orders([2, 3], [5.0, 4.0], 3) + draw_share(0.5)
    assert not re.search(r"style=|fill=|stroke=|href", svg)
