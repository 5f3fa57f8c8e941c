"""The text of a document as the page shows it: with the words of the cluster's topic marked.

A long text is shown by the passage that has most of them. What comes out is plain text in pieces;
nothing in it can hide or turn a line around, and that it is never taken for HTML is up to the
template.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from atd_dask.text.words import Tokeniser
from atd_dask.wording import clean_lines

# So many characters are shown: at first, and when a reader asks for more.
EXCERPT, WHOLE = 260, 4000

# A passage may be so many characters shorter at either end, to begin and end with a word.
_SLACK = 30
_BLANK = re.compile(r"\s")
_BLANKS = re.compile(r"[^\S\n]+")
_EMPTY_LINES = re.compile(r"\s*\n\s*\n\s*")


@dataclass(frozen=True)
class Piece:
    """A piece of a text; `kind` is `more` or `less` for a word that the topic uses more, or less,
    than usual, and empty for all else."""

    text: str
    kind: str = ""


@dataclass(frozen=True)
class Passage:
    """A text in two sizes; `whole` is empty where the excerpt has it all."""

    excerpt: tuple[Piece, ...]
    whole: tuple[Piece, ...]
    note: str  # what of the text is not shown


def find_forms(texts: Iterable[str], tokeniser: Tokeniser) -> dict[str, str]:
    """For each word that was counted, such as a stem, its most frequent form in some texts."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for text in texts:
        for start, end, word in tokeniser.locate(text):
            counts[word][text[start:end].lower()] += 1
    return {
        word: min(forms, key=lambda form: (-forms[form], len(form), form))
        for word, forms in counts.items()
    }


def join_excerpt(passage: Passage) -> str:
    """The excerpt on one line, for a table; it begins with nothing that a spreadsheet would take
    for a formula."""
    line = " ".join("".join(piece.text for piece in passage.excerpt).split())
    return line.lstrip("=+-@ ")


# Where a marked word begins and ends, and its kind.
Mark = tuple[int, int, str]


def mark_words(
    text: str, words: Iterable[tuple[int, int, str]], kinds: Mapping[str, str]
) -> Passage:
    """The passage of a text whose words stand at known places; `kinds` has the words to mark."""
    marks = [(start, end, kinds[word]) for start, end, word in words if word in kinds]
    shown = clean_lines(text)
    excerpt = _choose_window(shown, marks, EXCERPT)
    if excerpt == (0, len(shown)):
        return Passage(_cut(shown, marks, *excerpt), (), "")
    whole = _choose_window(shown, marks, WHOLE)
    note = ""
    if whole != (0, len(shown)):
        note = (
            f"{whole[1] - whole[0]:,} of {len(shown):,} characters: the passage with most words of"
            " the topic."
        )
    return Passage(_cut(shown, marks, *excerpt), _cut(shown, marks, *whole), note)


def _choose_window(text: str, marks: Sequence[Mark], size: int) -> tuple[int, int]:
    """The first of those parts of a text of about `size` characters that have most words which the
    topic uses more."""
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
    # What is left of the size goes to both sides of the words.
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
            first = max(first, place)  # words that are pairs of letters overlap
            pieces += [Piece(_tidy(text[place:first])), Piece(text[first:last], kind)]
            place = last
    pieces.append(Piece(_tidy(text[place:end])))
    if end < len(text):
        pieces.append(Piece(" …"))
    return tuple(piece for piece in pieces if piece.text)


def _tidy(text: str) -> str:
    """At most one blank or one empty line at a time."""
    return _EMPTY_LINES.sub("\n\n", _BLANKS.sub(" ", text))
