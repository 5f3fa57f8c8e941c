"""The paper's text collections: how each is prepared, and how it is split into parts.

`atd_dask.text.origins` fetches their files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from atd_dask.errors import InputError
from atd_dask.text.options import Source, TextOptions

# The topics of the paper's Reuters corpus: those of at least 33 stories that have a body and at
# most two topics, except acq and livestock.
REUTERS_TOPICS = frozenset(
    {
        "alum",
        "bop",
        "carcass",
        "cocoa",
        "coffee",
        "copper",
        "corn",
        "cpi",
        "crude",
        "dlr",
        "earn",
        "gas",
        "gnp",
        "gold",
        "grain",
        "interest",
        "ipi",
        "iron-steel",
        "jobs",
        "money-fx",
        "money-supply",
        "nat-gas",
        "oilseed",
        "reserves",
        "rubber",
        "ship",
        "sugar",
        "trade",
        "veg-oil",
        "wheat",
    }
)


@dataclass(frozen=True)
class Recipe:
    """How the paper makes a corpus from a collection.

    Each part in `percent` takes that percentage of the normal documents, rounded down, and the part
    `rest` takes the others. `anomalous_percent` of an anomalous class with at least `large_class`
    documents go to test; a smaller class goes there entirely. Documents with a label outside
    `only_labels` or in `without_labels` are left out.
    """

    text: TextOptions
    percent: tuple[tuple[str, int], ...]
    rest: str
    anomalous_percent: int
    large_class: int = 0
    only_labels: frozenset[str] | None = None
    without_labels: frozenset[str] = frozenset()


RECIPES = {
    "reuters": Recipe(
        text=TextOptions(letters="ascii", min_distinct=34, max_distinct=148),
        percent=(("train", 75), ("validation", 5)),
        rest="test",
        anomalous_percent=25,
        large_class=100,
        only_labels=REUTERS_TOPICS,
    ),
    "newsgroups": Recipe(
        text=TextOptions(
            letters="ascii",
            extra_stop_words=("article", "edu", "organization", "writes"),
            min_distinct=34,
            max_distinct=148,
        ),
        percent=(("validation", 10), ("test", 20)),
        rest="train",
        anomalous_percent=20,
        without_labels=frozenset({"misc.forsale"}),
    ),
}

NAMES = tuple(RECIPES)


def locate(
    name: str, path: str | None = None, on_progress: Callable[[str], None] = lambda message: None
) -> Source:
    """Return the source of a collection: `path` if given, or else a verified copy in the cache
    folder, which is fetched if needed. `on_progress` is called for every attempt."""
    _find_recipe(name)
    if path is None:
        from atd_dask.text.origins import fetch

        path = fetch(name, on_progress)
    return Source(format=name, path=path)


def preparation(name: str) -> TextOptions:
    """Return the paper's text options for a collection."""
    return _find_recipe(name).text


def assign_parts(
    name: str,
    ids: Sequence[str],
    labels: Sequence[tuple[str, ...]],
    anomalous: Sequence[str],
    seed: int,
) -> list[str | None]:
    """Assign each document to `train`, `validation` or `test`, or to None if it is left out.

    Call it with the documents that are left after text preparation. Left out are documents with a
    label that the paper excludes, unless it is an anomalous one, documents with several anomalous
    labels or none at all, and what exceeds the recipe's share of a large anomalous class. The draw
    depends on the seed and the set of documents, not on their order.
    """
    recipe = _find_recipe(name)
    known = {label for some in labels for label in some}
    for label in anomalous:
        if label not in known:
            raise InputError(
                f"an anomalous label must occur in {name}, got {label!r};"
                f" there are {', '.join(sorted(known))}"
            )
    parts: dict[int, str] = {}
    for group, rows in _group_rows(recipe, labels, frozenset(anomalous)).items():
        rows = _shuffle(rows, ids, seed, f"split/{name}/{group}")
        if group:
            whole = len(rows) < recipe.large_class
            n_test = len(rows) if whole else len(rows) * recipe.anomalous_percent // 100
            parts.update((row, "test") for row in rows[:n_test])
            continue
        start = 0
        for part, percent in recipe.percent:
            stop = start + len(rows) * percent // 100
            parts.update((row, part) for row in rows[start:stop])
            start = stop
        parts.update((row, recipe.rest) for row in rows[start:])
    return [parts.get(row) for row in range(len(labels))]


def _group_rows(
    recipe: Recipe, labels: Sequence[tuple[str, ...]], anomalous: frozenset[str]
) -> dict[str, list[int]]:
    """Group the documents that the paper uses by their anomalous label, ``""`` if normal."""
    groups: dict[str, list[int]] = {}
    for row, some in enumerate(labels):
        normal = set(some) - anomalous
        unusual = anomalous.intersection(some)
        if (
            some
            and len(unusual) <= 1
            and normal.isdisjoint(recipe.without_labels)
            and (recipe.only_labels is None or normal <= recipe.only_labels)
        ):
            groups.setdefault("".join(unusual), []).append(row)
    return groups


def _shuffle(rows: list[int], ids: Sequence[str], seed: int, purpose: str) -> list[int]:
    from atd_dask.kernels.streams import open_stream

    in_order = sorted(rows, key=lambda row: ids[row])
    return [in_order[i] for i in open_stream(seed, purpose).permutation(len(rows)).tolist()]


def _find_recipe(name: str) -> Recipe:
    try:
        return RECIPES[name]
    except KeyError:
        raise InputError(f"a dataset must be one of {', '.join(NAMES)}, got {name!r}") from None
