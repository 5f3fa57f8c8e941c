"""Numbers and times as people read them."""

from __future__ import annotations

import pytest

from atd_dask.report import numbers


@pytest.mark.parametrize(("number", "text"), [(0, "no"), (9, "nine"), (10, "10"), (1234, "1,234")])
def test_small_numbers_are_spelled_out(number: int, text: str) -> None:
    assert numbers.spell(number) == text


def test_a_count_does_not_break() -> None:
    assert numbers.count(1, "document") == "1\xa0document"
    assert numbers.count(1200, "document") == "1,200\xa0documents"
    assert numbers.count(2, "search", "searches") == "2\xa0searches"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.25, "0.25"), (0.01, "0.010"), (1.25e-5, "0.000013"), (4.1e-9, "4.1×10⁻⁹"), (0.0, "0")],
)
def test_probabilities_have_two_digits(value: float, text: str) -> None:
    assert numbers.show_probability(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.5, "0.5"), (0.01234, "0.012"), (1e-6, "1.0×10⁻⁶")])
def test_p_values(value: float, text: str) -> None:
    assert numbers.show_p_value(value) == text


@pytest.mark.parametrize(
    ("value", "base", "text"),
    [
        (0.2, 0.1, "× 2.0"),
        (0.1, 0.4, "÷ 4.0"),
        (0.5, 0.01, "× 50"),
        (0.5, 1e-9, "× 5.0×10⁸"),
        (0.0, 0.1, "–"),
    ],
)
def test_ratios(value: float, base: float, text: str) -> None:
    assert numbers.show_ratio(value, base) == text


def test_minus_signs_are_typographic() -> None:
    assert numbers.show_decimal(-1234.56) == "−1,234.6"
    assert numbers.show_decade(-3) == "10⁻³"


def test_a_time_is_for_people_and_for_machines() -> None:
    shown = numbers.mark_moment('2026-11-17T09:14:00+00:00"<b>')
    assert shown.startswith('<time datetime="2026-11-17T09:14:00+00:00&#34;&lt;b&gt;">')
    assert "17 November 2026, 09:14 UTC" in numbers.mark_moment("2026-11-17T09:14:00+00:00")
