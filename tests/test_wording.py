from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atd_dask.wording import (
    alternatives,
    clean,
    fold,
    hide_credentials,
    measure,
    nearest,
    shorten,
)


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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://me:hunter2@host/a", "s3://***@host/a"),
        ("got 'https://me:hun@ter2@host:9000/a?b=1'", "got 'https://***@host:9000/a?b=1'"),
        ("https://host/a?x=1&sig=hunter2&y=2", "https://host/a?x=1&sig=***&y=2"),
        ("https://host/a?X-Amz-Signature=hunter2", "https://host/a?X-Amz-Signature=***"),
        ("https://host/a?access_token=hunter2#top", "https://host/a?access_token=***#top"),
        ("zip://a::https://me:hunter2@host/b.zip", "zip://a::https://***@host/b.zip"),
        ("https://host/a@b?page=2", "https://host/a@b?page=2"),
        ("someone@example.org", "someone@example.org"),
    ],
)
def test_addresses_are_shown_without_their_secrets(text: str, shown: str) -> None:
    assert hide_credentials(text) == shown
    assert clean(text) == shown


def test_what_is_cut_has_no_secrets_either() -> None:
    assert "hunter2" not in shorten("https://me:hunter2-and-many-more-letters@host/path", 24)
