"""Text made safe to display: no secrets, no control characters, no overlong lines."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import islice

# Bidirectional control characters can make a line read differently from what it says.
_BIDIRECTIONAL = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)


# The user before the host of a URL, and signatures and tokens in its query.
_USER = re.compile(r"(?<=://)[^/\s'\"<>]*@")
_SIGNATURE = re.compile(
    r"([?&;][^=&\s]*(?:token|key|secret|sig|passw|pwd|auth|credential|session)[^=&\s]*=)[^&\s'\"#]+",
    re.IGNORECASE,
)


def hide_credentials(text: str) -> str:
    """Mask the user names, passwords and tokens in the URLs of `text`."""
    if "://" not in text:
        return text
    return _SIGNATURE.sub(r"\1***", _USER.sub("***@", text))


def clean(text: str) -> str:
    """Return `text` on one line, without secrets or terminal control characters."""
    text = hide_credentials(text)
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(character) for character in text)


def clean_lines(text: str) -> str:
    """Remove terminal control characters from `text`, but keep its line breaks."""
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
    """Return `text` on one line, cut to `length` characters."""
    text = hide_credentials(text)
    line = clean(text[: length + 1])
    return line if len(text) <= length else f"{line[: length - 1]}…"


def measure(text: str) -> int:
    """Return the width of `text` in terminal columns: wide characters take two, combining marks
    none."""
    if text.isascii():
        return len(text)
    return sum(_measure_character(character) for character in text)


def _measure_character(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def fold(text: str, width: int) -> list[str]:
    """Break `text` into lines of at most `width` columns (two or more), at spaces if possible."""
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
    """Join words as in `a, b or c`."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def list_some(words: Iterable[str], most: int = 10) -> str:
    """Join the first `most` words, each shortened, with an ellipsis if there are more."""
    some = list(islice(words, most + 1))
    return ", ".join(map(shorten, some[:most])) + (" …" if len(some) > most else "")


def nearest(word: str, known: Sequence[str]) -> str | None:
    """Return the known word that is closest to `word`, or None if none is close."""
    matches = difflib.get_close_matches(word[:100], known, n=1, cutoff=0.5)
    return matches[0] if matches else None
