"""Segments text without spaces into words: Chinese, Japanese, Thai, Lao, Khmer, Burmese.

ICU knows the words of all of them. Without ICU, a run of such letters is cut into bigrams.
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
    "ICU is not installed, so text in scripts without spaces between words is cut into bigrams:"
    " install atd-dask[segmentation] to get words"
)

# Yields the start and the end of each word of a run.
Segmenter = Callable[[str], Iterable[tuple[int, int]]]

_UNSPACED = re.compile(f"[{UNSPACED}]")


def is_unspaced(word: str) -> bool:
    """Return whether a word has a letter of a script without spaces between words."""
    return _UNSPACED.search(word) is not None


@cache
def choose_segmentation(wanted: str) -> str:
    """Resolve `auto` to `icu` if it is installed, or else to `bigrams`."""
    if wanted != "auto":
        return wanted
    return "icu" if find_spec("icu4py") else "bigrams"


@cache
def find_segmenter(wanted: str) -> Segmenter:
    """Return a function that cuts runs into words. If `auto` finds no ICU, the first run warns."""
    if choose_segmentation(wanted) == "bigrams":
        return _warn_and_cut if wanted == "auto" else cut_pairs
    try:
        from icu4py.breakers import WordBreaker
    except ImportError:
        raise InputError(
            "corpus.text.segmentation: icu needs ICU wherever text is read: install"
            " atd-dask[segmentation] here and on every worker"
        ) from None
    # ICU chooses its dictionary by the script, not by this locale.
    return lambda run: WordBreaker(run, "en").segments()


@cache
def _warn() -> None:
    warnings.warn(MISSING, stacklevel=2)


def _warn_and_cut(run: str) -> Iterator[tuple[int, int]]:
    _warn()
    return cut_pairs(run)


def cut_pairs(run: str) -> Iterator[tuple[int, int]]:
    """Yield the bigrams of a run, or the run itself if it has a single letter. Marks belong to the
    letter before them."""
    # The first character of a run counts as a letter, even if it is a stray mark.
    starts = [index for index, char in enumerate(run) if index == 0 or char.isalpha()]
    bounds = [*starts, len(run)]
    if len(bounds) == 2:
        yield 0, len(run)
    for (start, _), (_, end) in pairwise(pairwise(bounds)):
        yield start, end
