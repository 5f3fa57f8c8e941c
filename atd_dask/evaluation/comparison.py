"""Methods that only rank, beside one that decides: as many groups, and as many documents, are taken
from the top of each ranking as the other method has found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from atd_dask.evaluation.metrics import (
    Labels,
    average,
    compare_cluster,
    compare_documents,
)
from atd_dask.result_types import Agreement

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Task:
    """What is to be found, and how much of it may be named."""

    labels: Labels
    anomalous: tuple[str, ...]
    n_groups: int
    n_documents: int


@dataclass(frozen=True)
class GroupAgreement:
    """The mean over groups: against the whole batch, against what earlier groups left of it, and
    against the whole batch with the documents of each group in the order of the batch."""

    whole: Agreement
    remaining: Agreement
    unsorted: Agreement


def rank_rows(scores: Floats) -> Ints:
    """Return rows from the largest score on; equal ones in their order."""
    return np.argsort(-scores, kind="stable")


def judge_documents(task: Task, scores: Floats) -> Agreement:
    """Return the documents of largest score as anomalies."""
    top = rank_rows(scores)[: task.n_documents].tolist()
    return compare_documents([top], task.labels, task.anomalous)


def judge_groups(
    task: Task, scores: Floats, weights: Floats, counted: bool, groups: Ints
) -> GroupAgreement:
    """Return the groups of largest weight as anomalous clusters, the documents of each by their
    scores. A group weighs what its documents weigh: their sum if they are `counted`, else their
    mean."""
    sizes = np.bincount(groups)
    sums: Floats = np.bincount(groups, weights).astype(np.float64)
    values: Floats = sums if counted else sums / np.maximum(sizes, 1)
    values[sizes == 0] = -np.inf
    order = rank_rows(scores)
    gone: frozenset[int] = frozenset()
    whole, remaining, unsorted = [], [], []
    for group in rank_rows(values)[: task.n_groups]:
        rows = order[groups[order] == group].tolist()
        found = compare_cluster(rows, task.labels, task.anomalous, gone)
        as_they_came = compare_cluster(sorted(rows), task.labels, task.anomalous, frozenset())
        nothing = average([])
        whole.append(found.whole if found else nothing)
        remaining.append(found.remaining if found else nothing)
        unsorted.append(as_they_came.whole if as_they_came else nothing)
        gone |= set(rows)
    return GroupAgreement(average(whole), average(remaining), average(unsorted))


@dataclass(frozen=True)
class Spread:
    """A figure over seeds."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        some = list(values)
        return cls(sum(some) / len(some), min(some), max(some))

    def show(self, places: int = 2) -> str:
        """`0.84 (0.83 to 0.88)`; without the range where it has none at this precision."""
        mean, low, high = (f"{x:,.{places}f}" for x in (self.mean, self.low, self.high))
        return mean if low == high else f"{mean} ({low} to {high})"


def best_place(agreements: Sequence[Agreement]) -> int:
    """Return where F1 is largest; of equals the one of largest AUC, then the first."""
    return max(range(len(agreements)), key=lambda n: (agreements[n].f1, agreements[n].auc, -n))
