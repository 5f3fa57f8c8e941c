"""Formats numbers and times for people."""

from __future__ import annotations

import math

from markupsafe import Markup

from atd_dask.report.dates import show_moment
from atd_dask.wording import clean

_NAMES = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_MINUS = str.maketrans("-", "−")


def spell(number: int) -> str:
    """Spell out small numbers."""
    return _NAMES[number] if 0 <= number < len(_NAMES) else f"{number:,}"


def count(number: int, one: str, many: str | None = None) -> str:
    """Format a count as in `1 document` and `1,200 documents`, with a non-breaking space."""
    return f"{number:,}\N{NO-BREAK SPACE}{one if number == 1 else many or one + 's'}"


def show_decimal(value: float, places: int = 1) -> str:
    return f"{value:,.{places}f}".translate(_MINUS)


def show_p_value(value: float) -> str:
    return f"{value:.2g}" if value >= 1e-4 else show_power(value)


def show_probability(value: float) -> str:
    """Format a probability with two significant digits, tiny ones as a power of ten."""
    if value >= 1e-5:
        return f"{value:.{1 - math.floor(math.log10(value))}f}"
    return show_power(value)


def show_power(value: float) -> str:
    """Format a number as in `4.1×10⁻⁹`."""
    if value <= 0:
        return "0"
    digits, _, exponent = f"{value:.1e}".partition("e")
    return f"{digits}×10{str(int(exponent)).translate(_SUPERSCRIPTS)}"


def show_decade(exponent: int) -> str:
    """Format a power of ten for an axis."""
    return f"10{str(exponent).translate(_SUPERSCRIPTS)}"


def show_ratio(value: float, base: float) -> str:
    """Format how many times larger or smaller a probability is."""
    if value <= 0 or base <= 0:
        return "–"
    ratio = value / base
    sign, size = ("×", ratio) if ratio >= 1 else ("÷", 1 / ratio)
    if size >= 1e4:
        return f"{sign} {show_power(size)}"
    return f"{sign} {size:,.0f}" if size >= 10 else f"{sign} {size:.1f}"


def mark_moment(stamp: str) -> Markup:
    """Format a timestamp for people, in a `time` element that machines can read."""
    return Markup('<time datetime="{}">{}</time>').format(clean(stamp), show_moment(stamp))
