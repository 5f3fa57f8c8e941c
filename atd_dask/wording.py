"""Text that is safe and pleasant to show: no secrets, no control characters, no endless lines."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import islice

# Bidirectional controls can make a line read as something other than what it holds.
_BIDIRECTIONAL = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)


# Who asks, before the host of an address, and what an address is signed with, after its path.
_USER = re.compile(r"(?<=://)[^/\s'\"<>]*@")
_SIGNATURE = re.compile(
    r"([?&;][^=&\s]*(?:token|key|secret|sig|passw|pwd|auth|credential|session)[^=&\s]*=)[^&\s'\"#]+",
    re.IGNORECASE,
)


def hide_credentials(text: str) -> str:
    """`text` without the names, passwords and tokens in addresses."""
    if "://" not in text:
        return text
    return _SIGNATURE.sub(r"\1***", _USER.sub("***@", text))


def clean(text: str) -> str:
    """`text` on one line, without secrets and anything that a terminal would obey."""
    text = hide_credentials(text)
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(character) for character in text)


def clean_lines(text: str) -> str:
    """As `clean`, character by character, but lines stay lines."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char == "\n" else _shown(char) for char in text)


def _shown(character: str) -> str:
    if character.isspace():
        return " "
    if character in _BIDIRECTIONAL or unicodedata.category(character) in ("Cc", "Cs"):
        return "\N{REPLACEMENT CHARACTER}"
    return character


def shorten(text: str, length: int = 60) -> str:
    """`text` on one line, cut to `length` characters."""
    text = hide_credentials(text)
    line = clean(text[: length + 1])
    return line if len(text) <= length else f"{line[: length - 1]}…"


def measure(text: str) -> int:
    """How many columns of a terminal `text` takes: two for a wide character, none for a mark that
    stands on another."""
    if text.isascii():
        return len(text)
    return sum(_measure_character(character) for character in text)


def _measure_character(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def fold(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` columns, which must be two or more; broken at blanks where
    it can be."""
    lines = []
    while measure(text) > width:
        end, taken = 0, 0
        while taken + _measure_character(text[end]) <= width:
            taken += _measure_character(text[end])
            end += 1
        blank = text.rfind(" ", 1, end + 1)
        end = blank if blank > 0 else end
        lines.append(text[:end].rstrip())
        text = text[end:].lstrip()
    return [*lines, text]


def alternatives(words: Iterable[str]) -> str:
    """`a, b or c`."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def list_some(words: Iterable[str], most: int = 10) -> str:
    """The first of some words, each cut, and whether there are more."""
    some = list(islice(words, most + 1))
    return ", ".join(map(shorten, some[:most])) + (" …" if len(some) > most else "")


def nearest(word: str, known: Sequence[str]) -> str | None:
    """The known word that `word` was probably meant to be."""
    matches = difflib.get_close_matches(word[:100], known, n=1, cutoff=0.5)
    return matches[0] if matches else None
