"""Splits text into runs that may be words, in any script, in numbers and in code."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache

from atd_dask.text.languages import UNSPACED
from atd_dask.text.segmentation import Segmenter, find_segmenter

TOKENS = ("words", "words+numbers", "code")

# What varies from line to line of a log, in order of precedence. Text is in lower case here.
MASKS = {
    "<time>": r"""\d{4}[-/]\d\d[-/]\d\d
            (?:[t ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:z|\ ?[+-]\d\d:?\d\d)?)?
        |\d\d/[a-z]{3}/\d{4}(?::\d\d:\d\d:\d\d(?:\ [+-]\d{4})?)?
        |\d\d?:\d\d:\d\d(?:[.,]\d+)?""",
    "<hash>": r"""[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}
        |0x[0-9a-f]+
        |(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{7,}""",
    "<ip>": r"""\d{1,3}(?:\.\d{1,3}){3}(?:[:/]\d{1,5})?
        |(?=[a-f:]*\d)(?=(?:[0-9a-f]*:){2})[0-9a-f:]{2,38}[0-9a-f]""",
    "<path>": r"""[a-z][a-z0-9+.-]*://[^\s"'<>()]+
        |(?:[a-z]:|~|\.\.?)?(?:[\\/][\w.@+-]+){2,}[\\/]?""",
    "<number>": r"""[+-]?(?:\d+(?:\.\d+)?(?:[mun]?s|[kmgt]?i?b)|\d+(?:[.,]\d+)+|\d{4,})""",
}

# Invisible characters that join a word, or mark where it may be broken.
_JOINERS = "\u200c\u200d\xad"


class Splitter:
    """Finds the runs of a text that may be words, by one rule for each kind of `tokens`.

    Letters and their marks make runs. In scripts without spaces, a run is segmented into words.
    With numbers, digits count as letters, and a point or comma between digits does not end a run.
    In code, names are cut at capitals and underscores, and what varies from line to line is masked:
    see `MASKS`.
    """

    def __init__(self, tokens: str, only_ascii: bool, segmentation: str, capitals: str) -> None:
        self._pattern = _compile(tokens, only_ascii)
        self._in_code = tokens == "code"
        self._segmentation = segmentation
        # In Python the lower case of the Turkish İ has two characters; all others have one.
        self._capitals = str.maketrans({"İ": "i"} | ({"I": "ı"} if capitals == "turkish" else {}))
        self._segment: Segmenter | None = None

    def find(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield each run, in lower case or as its mask, with its start and end in `text`."""
        lower = text.translate(self._capitals).lower()
        for match in self._pattern.finditer(lower):
            start, end = match.span()
            kind = match.lastgroup
            if kind == "word":
                yield start, end, match[0]
            elif kind == "name":
                for first, last in _cut_name(text[start:end]):
                    yield start + first, start + last, lower[start + first : start + last]
            elif kind == "unspaced":
                for first, last in self._find_segmenter()(match[0]):
                    if any(map(str.isalpha, match[0][first:last])):
                        yield start + first, start + last, match[0][first:last]
            else:
                assert match.lastindex is not None
                yield start, end, list(MASKS)[match.lastindex - 1]

    def _find_segmenter(self) -> Segmenter:
        if self._segment is None:
            self._segment = find_segmenter(self._segmentation)
        return self._segment


@cache
def _compile(tokens: str, only_ascii: bool) -> re.Pattern[str]:
    marks, numerals = ("", "") if only_ascii else _find_classes()
    # What words consist of and may start with: letters, digits, underscores.
    beyond = "" if only_ascii else rf"{numerals}{UNSPACED}"
    begins, goes_on = {
        "words": ("a-z", "a-z") if only_ascii else (r"^\W\d_", r"^\W\d_"),
        "words+numbers": ("a-z0-9", "a-z0-9") if only_ascii else (r"^\W_", r"^\W_"),
        "code": ("a-z0-9", "a-z0-9_") if only_ascii else (r"^\W_", r"^\W"),
    }[tokens]
    begin, go_on = f"[{begins}{beyond}]", f"[{goes_on}{beyond}]"
    further = [] if only_ascii else [f"[{marks}]+{go_on}*", f"[{_JOINERS}]{go_on}+"]
    if tokens == "words+numbers":
        further.append(rf"(?<=\d)[.,](?=\d){go_on}+")
    word = f"{begin}{go_on}*" + (f"(?:{'|'.join(further)})*" if further else "")
    kinds = []
    if tokens == "code":
        # A mask never starts or ends within a name or a number.
        kinds += [rf"(?<![\w.:])((?x:{pattern}))(?![\w])" for pattern in MASKS.values()]
    if not only_ascii:
        kinds.append(f"(?P<unspaced>[{UNSPACED}]+)")
    kinds.append(f"(?P<{'name' if tokens == 'code' else 'word'}>{word})")
    return re.compile("|".join(kinds))


@cache
def _find_classes() -> tuple[str, str]:
    """Return character classes: the marks that letters may have, and the numerals that are neither
    letters nor digits, such as ² and Ⅷ."""
    # Beyond the second plane there are only Han characters, and one block of marks.
    chars = [*map(chr, range(0x20000)), *map(chr, range(0xE0100, 0xE01F0))]
    marks = (c for c in chars if unicodedata.category(c) in ("Mn", "Mc"))
    numerals = (c for c in chars if c.isalnum() and not c.isalpha() and not c.isdecimal())
    return _join_ranges(marks), _join_ranges(numerals)


def _join_ranges(chars: Iterable[str]) -> str:
    ranges: list[list[int]] = []
    for code in map(ord, chars):
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


def _cut_name(name: str) -> Iterator[tuple[int, int]]:
    """Yield the parts of a name such as getHTTPStatus_code2. It is cut at underscores, before a
    capital that follows a small letter or a digit, and before the last of several capitals if a
    small letter follows."""
    start = 0
    for index in range(1, len(name) + 1):
        if index == len(name) or name[index] == "_" or _begins(name, index):
            if name[start:index].strip("_"):
                yield start, index
            start = index + 1 if index < len(name) and name[index] == "_" else index


def _begins(name: str, index: int) -> bool:
    if not name[index].isupper():
        return False
    before, after = name[index - 1], name[index + 1 : index + 2]
    return not before.isupper() or after.islower()
