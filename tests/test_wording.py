from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from atd_dask.wording import alternatives, clean, fold, measure, nearest, shorten


@given(st.text(st.characters(codec=None)))
def test_clean_text_has_nothing_that_a_terminal_obeys(text: str) -> None:
    shown = clean(text)
    assert not any(unicodedata.category(character) in ("Cc", "Cs") for character in shown)
    assert len(shown.splitlines()) <= 1
    shown.encode("utf-8")


def test_clean_keeps_what_is_harmless() -> None:
    assert clean("Grüße [red]an 日本[/red]") == "Grüße [red]an 日本[/red]"
    assert clean("\x1b[31mred\x07\n\u202enext") == "�[31mred� �next"


@given(st.text(max_size=200), st.integers(5, 50))
def test_shortened_text_fits(text: str, length: int) -> None:
    assert len(shorten(text, length)) <= length


def test_shorten_leaves_short_text() -> None:
    assert shorten("abc", 3) == "abc"
    assert shorten("abcd", 3) == "ab…"


def test_alternatives() -> None:
    assert alternatives(["a"]) == "a"
    assert alternatives(iter(["a", "b", "c"])) == "a, b or c"


def test_nearest() -> None:
    assert nearest("membersip", ["membership", "significance"]) == "membership"
    assert nearest("zzz", ["membership", "significance"]) is None


def test_lines_are_folded_by_columns_at_blanks_if_there_are_any() -> None:
    assert fold("one two three", 7) == ["one two", "three"]
    assert fold("abcdefgh", 3) == ["abc", "def", "gh"]
    assert fold("火山喷发", 5) == ["火山", "喷发"]
    assert (measure("火山"), measure("e\u0301"), measure("ab")) == (4, 1, 2)
