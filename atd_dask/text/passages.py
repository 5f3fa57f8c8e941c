"""Passages of documents for the page, with the words of a cluster's topic marked.

A long text is represented by the passage with most of these words. A passage is plain text in
pieces, without control characters that hide or reverse a line; the template escapes it as HTML.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from atd_dask.text.words import Tokeniser
from atd_dask.wording import clean_lines

# How many characters are shown: at first, and when a reader opens the text.
EXCERPT, WHOLE = 260, 4000

# How many characters a passage may be shorter at either end, to start and end with a word.
_SLACK = 30
_BLANK = re.compile(r"\s")
_BLANKS = re.compile(r"[^\S\n]+")
_EMPTY_LINES = re.compile(r"\s*\n\s*\n\s*")


@dataclass(frozen=True)
class Piece:
    """A piece of a text; `kind` is `more` or `less` for a word that the topic uses more or less
    than usual, and empty otherwise."""

    text: str
    kind: str = ""


@dataclass(frozen=True)
class Passage:
    """A text in two sizes; `whole` is empty if the excerpt has everything."""

    excerpt: tuple[Piece, ...]
    whole: tuple[Piece, ...]
    note: str  # which part of the text is shown


def find_forms(texts: Iterable[str], tokeniser: Tokeniser) -> dict[str, str]:
    """Map each counted word, such as a stem, to its most frequent form in the texts."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for text in texts:
        for start, end, word in tokeniser.locate(text):
            counts[word][text[start:end].lower()] += 1
    return {
        word: min(forms, key=lambda form: (-forms[form], len(form), form))
        for word, forms in counts.items()
    }


def join_excerpt(passage: Passage) -> str:
    """Return the excerpt on one line, for a table, in a form that no spreadsheet takes for a
    formula."""
    line = " ".join("".join(piece.text for piece in passage.excerpt).split())
    return line.lstrip("=+-@ ")


# The start, the end and the kind of a marked word.
Mark = tuple[int, int, str]


def mark_words(
    text: str, words: Iterable[tuple[int, int, str]], kinds: Mapping[str, str]
) -> Passage:
    """Return the passage of a text, given its words with their offsets; `kinds` has the words to
    mark."""
    marks = [(start, end, kinds[word]) for start, end, word in words if word in kinds]
    shown = clean_lines(text)
    excerpt = _choose_window(shown, marks, EXCERPT)
    if excerpt == (0, len(shown)):
        return Passage(_cut(shown, marks, *excerpt), (), "")
    whole = _choose_window(shown, marks, WHOLE)
    note = ""
    if whole != (0, len(shown)):
        note = (
            f"{whole[1] - whole[0]:,} of {len(shown):,} characters: the passage with the most words"
            " of the topic."
        )
    return Passage(_cut(shown, marks, *excerpt), _cut(shown, marks, *whole), note)


def _choose_window(text: str, marks: Sequence[Mark], size: int) -> tuple[int, int]:
    """Return the first window of about `size` characters with the most words that the topic uses
    more."""
    if len(text) <= size:
        return 0, len(text)
    places = [(start, end) for start, end, kind in marks if kind == "more"]
    most, first, last = 0, 0, 0
    behind = 0
    for ahead, (_, end) in enumerate(places):
        while end - places[behind][0] > size:
            behind += 1
            if behind > ahead:
                break
        if ahead - behind + 1 > most:
            most, first, last = ahead - behind + 1, places[behind][0], end
    # The rest of the window goes to both sides of the words.
    start = max(0, min(first - (size - (last - first)) // 2, len(text) - size))
    end = start + size
    if start and (blank := _BLANK.search(text, start, min(start + _SLACK, max(first, start)))):
        start = blank.end()
    if end < len(text) and (blanks := list(_BLANK.finditer(text, max(last, end - _SLACK), end))):
        end = blanks[-1].start()
    return start, end


def _cut(text: str, marks: Sequence[Mark], start: int, end: int) -> tuple[Piece, ...]:
    pieces = [Piece("… ")] if start else []
    place = start
    for first, last, kind in marks:
        if start <= first and place < last <= end:
            first = max(first, place)  # words that are bigrams overlap
            pieces += [Piece(_tidy(text[place:first])), Piece(text[first:last], kind)]
            place = last
    pieces.append(Piece(_tidy(text[place:end])))
    if end < len(text):
        pieces.append(Piece(" …"))
    return tuple(piece for piece in pieces if piece.text)


def _tidy(text: str) -> str:
    """Collapse spaces and empty lines."""
    return _EMPTY_LINES.sub("\n\n", _BLANKS.sub(" ", text))
