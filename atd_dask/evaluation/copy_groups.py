"""Near-duplicates in a result: those of the documents of clusters, and groups of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from atd_dask.result_types import BatchDocument, ClusterResult, CopyGroup, MemberDocument

if TYPE_CHECKING:
    from atd_dask.documents import Copies
    from atd_dask.evaluation.metrics import Labels

# The smallest group that is reported: two may be a document that was sent twice.
LEAST_REPORTED = 3
SHOWN_WORDS = 20


def place_in_batch(
    clusters: Sequence[ClusterResult],
    rows: NDArray[np.int64],
    copies: Copies,
    ids: Sequence[str],
    labels: Labels,
) -> tuple[ClusterResult, ...]:
    """Map clusters of representatives back to the whole batch, where `rows` has the row of each.

    Documents get their near-duplicates, which a cluster counts separately.
    """
    groups = group_copies(copies.copy_of)

    def place_member(member: MemberDocument) -> MemberDocument:
        row = int(rows[member.row])
        others = [_name_document(other, ids, labels) for other in groups.get(row, ())]
        return replace(member, row=row, copies=tuple(others) or None)

    placed = []
    for cluster in clusters:
        documents = tuple(map(place_member, cluster.documents))
        growth = tuple(replace(step, row=int(rows[step.row])) for step in cluster.growth)
        n_copies = sum(len(member.all_copies) for member in documents)
        placed.append(replace(cluster, documents=documents, growth=growth, n_copies=n_copies))
    return tuple(placed)


def _name_document(row: int, ids: Sequence[str], labels: Labels) -> BatchDocument:
    return BatchDocument(row=row, id=ids[row], labels=tuple(labels[row]))


def group_copies(copy_of: NDArray[np.int64]) -> dict[int, list[int]]:
    """Map each document with near-duplicates to their rows."""
    groups: dict[int, list[int]] = {}
    for row in np.flatnonzero(copy_of >= 0).tolist():
        groups.setdefault(int(copy_of[row]), []).append(row)
    return groups


def choose_groups(copies: Copies) -> list[list[int]]:
    """Return the groups of near-duplicates to report, largest first: large enough, and without a
    match in training. The first document of each represents the others."""
    groups = [
        [row, *others]
        for row, others in group_copies(copies.copy_of).items()
        if len(others) + 1 >= LEAST_REPORTED and not copies.in_training[row]
    ]
    return sorted(groups, key=lambda rows: (-len(rows), rows[0]))


def describe_copies(
    groups: Sequence[Sequence[int]],
    words: Mapping[int, Mapping[str, int]],
    shared: Mapping[str, float],
    clusters: Sequence[ClusterResult],
    ids: Sequence[str],
    labels: Labels,
) -> tuple[CopyGroup, ...]:
    """Describe the groups of near-duplicates of a result.

    `words` has the counts of the first document of each group, and `shared` the usual probability
    of words, 0 for those that training lacks. The most frequent words are listed; ties go to the
    less usual one.
    """
    described = []
    for rows in groups:
        counts = words[rows[0]]
        order = sorted(counts, key=lambda word: (-counts[word], shared.get(word, 0.0), word))
        described.append(
            CopyGroup(
                size=len(rows),
                cluster=None,
                words=tuple(order[:SHOWN_WORDS]),
                documents=tuple(_name_document(row, ids, labels) for row in rows),
            )
        )
    return name_homes(described, clusters)


def name_homes(
    groups: Sequence[CopyGroup], clusters: Sequence[ClusterResult]
) -> tuple[CopyGroup, ...]:
    """Add to each group the significant cluster that it belongs to."""
    homes = {
        row: cluster.index
        for cluster in reversed(clusters)  # the first of two wins
        if cluster.significant
        for row in cluster.rows
    }
    return tuple(replace(group, cluster=homes.get(group.documents[0].row)) for group in groups)
