"""What the searches in held-out documents found: the bar that a candidate must clear."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from atd_dask.report.numbers import count, show_decimal, spell
from atd_dask.result_types import ReferenceSearch, Result
from atd_dask.wording import clean, shorten

WORD_LETTERS = 30
ID_LETTERS = 80


@dataclass(frozen=True)
class SearchRow:
    """The best candidate of a search."""

    number: int  # of the search
    support: str
    size: str
    order: tuple[float, int]  # the sort keys of the two columns
    words: tuple[str, ...]
    documents: tuple[tuple[str, str], ...]  # the surest ones: id and part
    more: int  # documents that are not listed


@dataclass(frozen=True)
class SearchesView:
    """All searches, largest support first."""

    rows: tuple[SearchRow, ...]
    sentence: str


def view_searches(result: Result, forms: Mapping[str, str]) -> SearchesView | None:
    """Return the searches of a result, or None if it does not list them."""
    found = result.references or ()
    if not any(search.size is not None for search in found):
        return None
    rows = [_view_search(number, search, forms) for number, search in enumerate(found, 1)]
    rows.sort(key=lambda row: (-row.order[0], row.number))
    return SearchesView(tuple(rows), _say_found(found))


def _view_search(number: int, search: ReferenceSearch, forms: Mapping[str, str]) -> SearchRow:
    size, documents = search.size, search.documents
    return SearchRow(
        number,
        show_decimal(search.support),
        "–" if size is None else f"{size:,}",
        (search.support, -1 if size is None else size),
        tuple(shorten(forms.get(word, word), WORD_LETTERS) for word in search.words),
        tuple((shorten(one.id, ID_LETTERS), clean(one.part)) for one in documents),
        max((size or 0) - len(documents), 0),
    )


def _say_found(found: Sequence[ReferenceSearch]) -> str:
    none = sum(search.size == 0 for search in found)
    largest = max(search.support for search in found)
    times = "once" if len(found) == 1 else count(len(found), "time")
    start = (
        f"The same search was run {times} in held-out documents that are known to be normal, and"
        " that were compared with the other normal ones."
    )
    if none == len(found):
        return f"{start} It found no candidate at all."
    said = f"{start} It found a support of at most {show_decimal(largest)}"
    if none:
        said += f", and {spell(none)} time{'s' if none > 1 else ''} no candidate at all"
    return (
        f"{said}. If a candidate that you believe in failed, look at the first ones: a real group"
        " among the normal documents raises the bar for everything else."
    )
