"""Compares methods that only rank with one that decides: from the top of each ranking it takes as
many groups, and as many documents, as the deciding method found."""

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
    """What to find, and how many groups and documents may be named."""

    labels: Labels
    anomalous: tuple[str, ...]
    n_groups: int
    n_documents: int


@dataclass(frozen=True)
class GroupAgreement:
    """The mean agreement of groups: with the whole batch, with what earlier groups left over, and
    with the whole batch if the documents of each group are in the order of the batch."""

    whole: Agreement
    remaining: Agreement
    unsorted: Agreement


def rank_rows(scores: Floats) -> Ints:
    """Return the rows by descending score, ties in order."""
    return np.argsort(-scores, kind="stable")


def judge_documents(task: Task, scores: Floats) -> Agreement:
    """Judge the documents with the largest scores as anomalies."""
    top = rank_rows(scores)[: task.n_documents].tolist()
    return compare_documents([top], task.labels, task.anomalous)


def judge_groups(
    task: Task, scores: Floats, weights: Floats, counted: bool, groups: Ints
) -> GroupAgreement:
    """Judge the groups with the largest weights as anomalous clusters, their documents ordered by
    score. The weight of a group is the sum of its documents' weights if `counted`, or else the
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
    """The mean and the range of a figure over seeds."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        some = list(values)
        return cls(sum(some) / len(some), min(some), max(some))

    def show(self, places: int = 2) -> str:
        """Format as in `0.84 (0.83 to 0.88)`, without the range if it vanishes at this
        precision."""
        mean, low, high = (f"{x:,.{places}f}" for x in (self.mean, self.low, self.high))
        return mean if low == high else f"{mean} ({low} to {high})"


def best_place(agreements: Sequence[Agreement]) -> int:
    """Return the index of the largest F1; ties go to the larger AUC, then to the first."""
    return max(range(len(agreements)), key=lambda n: (agreements[n].f1, agreements[n].auc, -n))
