"""The paper's metrics: how well clusters match anomalous labels.

Documents count in the order in which they joined. The AUC is the area of the trapezoids between the
points (recall, precision) after each document, starting with the first one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from atd_dask.result_types import Agreement

Labels = Sequence[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class ClusterAgreement:
    """The agreement of a cluster with its majority label: in the whole batch, and in what was left
    when the cluster was found."""

    label: str
    whole: Agreement
    remaining: Agreement


def compare(hits: Sequence[bool], n_true: int) -> Agreement:
    """Compare documents in order, each a hit or not, with `n_true` true ones."""
    found = 0
    area = 0.0
    recall = precision = 0.0
    for number, hit in enumerate(hits, 1):
        found += hit
        before = recall, precision
        recall = found / n_true if n_true else 0.0
        precision = found / number
        if number > 1:
            area += (recall - before[0]) * (precision + before[1]) / 2
    total = recall + precision
    return Agreement(recall, precision, 2 * recall * precision / total if total else 0.0, area)


def compare_cluster(
    documents: Sequence[int], labels: Labels, anomalous: Sequence[str], gone: frozenset[int]
) -> ClusterAgreement | None:
    """Compare a cluster with the anomalous label that most of its documents have; ties go to the
    first.

    `gone` are the documents of earlier clusters. Return None if no document has an anomalous label.
    """
    counts = {label: sum(label in labels[d] for d in documents) for label in anomalous}
    label = max(anomalous, key=lambda name: counts[name], default=None)
    if label is None or counts[label] == 0:
        return None
    hits = [label in labels[document] for document in documents]
    true = [row for row, some in enumerate(labels) if label in some]
    return ClusterAgreement(
        label,
        compare(hits, len(true)),
        compare(hits, sum(row not in gone for row in true)),
    )


def compare_documents(
    clusters: Sequence[Sequence[int]], labels: Labels, anomalous: Sequence[str]
) -> Agreement:
    """Compare the documents of all clusters, each once and in order, with all anomalous ones."""
    names = set(anomalous)
    true = [not names.isdisjoint(some) for some in labels]
    rows = dict.fromkeys(row for cluster in clusters for row in cluster)
    return compare([true[row] for row in rows], sum(true))


def average(agreements: Sequence[Agreement]) -> Agreement:
    """Return the mean over clusters, or zeros if there are none."""
    n = max(len(agreements), 1)
    return Agreement(
        sum(a.recall for a in agreements) / n,
        sum(a.precision for a in agreements) / n,
        sum(a.f1 for a in agreements) / n,
        sum(a.auc for a in agreements) / n,
    )
