"""Near-copies in a result: those of the documents of clusters, and groups of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from atd_dask.documents import Copies
    from atd_dask.evaluation.metrics import Labels

# So many documents of the same words make a finding: two may be a document that was sent twice.
LEAST_TOLD = 3
SHOWN_WORDS = 20


def place_in_batch(
    clusters: Sequence[dict[str, Any]],
    rows: NDArray[np.int64],
    copies: Copies,
    ids: Sequence[str],
    labels: Labels,
) -> None:
    """Brings clusters of representatives back into the whole batch: `rows` has the row of each
    representative. Every document gets its copies, which a cluster counts apart."""
    groups = group_copies(copies.copy_of)
    for cluster in clusters:
        for entry in (*cluster["documents"], *cluster["growth"]):
            entry["row"] = int(rows[entry["row"]])
        for document in cluster["documents"]:
            others = groups.get(document["row"])
            if others:
                document["copies"] = [
                    {"row": row, "id": ids[row], "labels": list(labels[row])} for row in others
                ]
        cluster["n_copies"] = sum(len(d.get("copies", ())) for d in cluster["documents"])


def group_copies(copy_of: NDArray[np.int64]) -> dict[int, list[int]]:
    """For every document that has copies their rows."""
    groups: dict[int, list[int]] = {}
    for row in np.flatnonzero(copy_of >= 0).tolist():
        groups.setdefault(int(copy_of[row]), []).append(row)
    return groups


def list_rows(cluster: Mapping[str, Any]) -> list[int]:
    """The documents of a cluster, each followed by its copies."""
    rows = []
    for document in cluster["documents"]:
        rows.append(document["row"])
        rows += [copy["row"] for copy in document.get("copies", ())]
    return rows


def choose_groups(copies: Copies) -> list[list[int]]:
    """The groups of copies that are a finding, the largest first: large enough, and without a
    counterpart in training. The first of each stands for the others."""
    groups = [
        [row, *others]
        for row, others in group_copies(copies.copy_of).items()
        if len(others) + 1 >= LEAST_TOLD and not copies.in_training[row]
    ]
    return sorted(groups, key=lambda rows: (-len(rows), rows[0]))


def describe_copies(
    groups: Sequence[Sequence[int]],
    words: Mapping[int, Mapping[str, int]],
    shared: Mapping[str, float],
    clusters: Sequence[Mapping[str, Any]],
    ids: Sequence[str],
    labels: Labels,
) -> list[dict[str, Any]]:
    """The entries of `copies` in result.json.

    `words` has the counts of the first of each group, `shared` how probable words are elsewhere, 0
    for those that training lacks. The words that are told are the most frequent ones, among equals
    the rarer elsewhere.
    """
    described = []
    for rows in groups:
        counts = words[rows[0]]
        order = sorted(counts, key=lambda word: (-counts[word], shared.get(word, 0.0), word))
        described.append(
            {
                "size": len(rows),
                "cluster": None,
                "words": order[:SHOWN_WORDS],
                "documents": [
                    {"row": row, "id": ids[row], "labels": list(labels[row])} for row in rows
                ],
            }
        )
    name_homes(described, clusters)
    return described


def name_homes(groups: Sequence[dict[str, Any]], clusters: Sequence[Mapping[str, Any]]) -> None:
    """Says of each group of copies which significant cluster it belongs to."""
    homes = {
        document["row"]: cluster["index"]
        for cluster in reversed(clusters)  # of two, the first
        if cluster["significant"]
        for document in cluster["documents"]
    }
    for group in groups:
        group["cluster"] = homes.get(group["documents"][0]["row"])
