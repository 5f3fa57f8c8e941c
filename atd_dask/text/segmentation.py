"""Words of scripts that are written without blanks: Chinese, Japanese, Thai, Lao, Khmer, Burmese.

ICU knows the words of all of them. Without it, a run of such letters is cut into overlapping pairs.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from itertools import pairwise

from atd_dask.errors import InputError
from atd_dask.text.languages import UNSPACED

SEGMENTATIONS = ("auto", "icu", "bigrams")
MISSING = (
    "ICU is missing, so text in scripts without blanks between words is cut into pairs of letters:"
    " install atd-dask[segmentation] for words"
)

# Where each word of a run begins and ends in it.
Segmenter = Callable[[str], Iterable[tuple[int, int]]]

_UNSPACED = re.compile(f"[{UNSPACED}]")


def is_unspaced(word: str) -> bool:
    """Whether a word has a letter of a script without blanks between words."""
    return _UNSPACED.search(word) is not None


@cache
def choose_segmentation(wanted: str) -> str:
    """`icu` or `bigrams`, whichever `auto` stands for here."""
    if wanted != "auto":
        return wanted
    return "icu" if find_spec("icu4py") else "bigrams"


@cache
def find_segmenter(wanted: str) -> Segmenter:
    """What cuts runs into words. Where `auto` finds no ICU, a warning says so at the first run."""
    if choose_segmentation(wanted) == "bigrams":
        return _warn_and_cut if wanted == "auto" else cut_pairs
    try:
        from icu4py.breakers import WordBreaker
    except ImportError:
        raise InputError(
            "corpus.text.segmentation: icu needs ICU wherever text is read: install"
            " atd-dask[segmentation] here and on every worker"
        ) from None
    # The dictionaries are chosen by the script, not by this locale.
    return lambda run: WordBreaker(run, "en").segments()


@cache
def _warn() -> None:
    warnings.warn(MISSING, stacklevel=2)


def _warn_and_cut(run: str) -> Iterator[tuple[int, int]]:
    _warn()
    return cut_pairs(run)


def cut_pairs(run: str) -> Iterator[tuple[int, int]]:
    """Every letter with the one that follows it, marks being part of their letter; the run itself
    if there is one letter alone."""
    # A letter that opens a run is one even if it is a mark that has lost its letter.
    starts = [index for index, char in enumerate(run) if index == 0 or char.isalpha()]
    bounds = [*starts, len(run)]
    if len(bounds) == 2:
        yield 0, len(run)
    for (start, _), (_, end) in pairwise(pairwise(bounds)):
        yield start, end
