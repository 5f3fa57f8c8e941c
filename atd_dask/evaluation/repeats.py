"""Combines several detections of one batch, each with its own null model, into one result.

A candidate of a repeat matches a listed cluster if they share most documents of the smaller one. If
it matches several, the one with which it shares most counts, so that the remains of a cluster in
one repeat do not pass for all of it in another. A cluster counts as found in every repeat that has
a significant match. Its p-values in all repeats together decide whether it is significant; a repeat
without a match counts as 1.

The rate of false alarms stays that of a single detection. If searches decide, the smallest p-value
of a repeat is valid for the whole batch, and no cluster has a smaller one there. So no cluster has
a smaller one over all repeats than these combined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from atd_dask.evaluation.copy_groups import name_homes
from atd_dask.kernels.p_values import combine_p_values, count_majority
from atd_dask.result_types import (
    ClusterRepeats,
    ClusterResult,
    RepeatFigures,
    Result,
    ResultRepeats,
)


def combine_results(results: Sequence[Result], seeds: Sequence[int], level: float) -> Result:
    """Return the result of the first repeat, with clusters judged by all repeats.

    A cluster is listed as in the first repeat that found it. Those that are not significant follow:
    clusters found in too few repeats, in descending order of their number, then the candidates of
    the first repeat that no repeat found. Everything else is that of the first result, except for
    evaluations, which must be computed again.
    """
    first = results[0]
    listed: list[tuple[int, ClusterResult]] = []
    for repeat, result in enumerate(results, 1):
        for cluster in result.significant:
            if not any(_are_like(cluster, one) for _, one in listed):
                listed.append((repeat, cluster))
    for candidate in first.clusters:
        if not candidate.significant and not any(_are_like(candidate, one) for _, one in listed):
            listed.append((1, candidate))
    speaking = [_share_out(result.clusters, [one for _, one in listed]) for result in results]
    judged = [
        _judge(repeat, one, [of_repeat[place] for of_repeat in speaking], level)
        for place, (repeat, one) in enumerate(listed)
    ]
    judged.sort(key=_rank)
    clusters = tuple(replace(cluster, index=index) for index, cluster in enumerate(judged, 1))
    return replace(
        first,
        clusters=clusters,
        copies=None if first.copies is None else name_homes(first.copies, clusters),
        repeats=ResultRepeats(
            n=len(results),
            majority=count_majority(len(results)),
            null_models=tuple(
                RepeatFigures(
                    repeat=repeat,
                    seed=seed,
                    n_topics=result.null_model.n_topics,
                    bic=result.null_model.bic,
                    clusters=len(result.significant),
                )
                for repeat, (seed, result) in enumerate(zip(seeds, results, strict=True), 1)
            ),
        ),
    )


def _share_out(
    candidates: Sequence[ClusterResult], listed: Sequence[ClusterResult]
) -> list[list[ClusterResult]]:
    """Return the candidates of a repeat that match each listed cluster."""
    speaking: list[list[ClusterResult]] = [[] for _ in listed]
    for candidate in candidates:
        rows = set(candidate.rows)
        common = {
            place: len(rows.intersection(one.rows))
            for place, one in enumerate(listed)
            if _are_like(candidate, one)
        }
        if common:
            speaking[max(common, key=lambda place: common[place])].append(candidate)
    return speaking


def _judge(
    repeat: int, cluster: ClusterResult, speaking: Sequence[Sequence[ClusterResult]], level: float
) -> ClusterResult:
    """Return a cluster with its figures over all repeats."""
    p_values = [
        min((one.deciding_p_value for one in of_repeat), default=None) for of_repeat in speaking
    ]
    p_value = combine_p_values([1.0 if p is None else p for p in p_values])
    return replace(
        cluster,
        significant=p_value <= level,
        repeats=ClusterRepeats(
            found=sum(any(one.significant for one in of_repeat) for of_repeat in speaking),
            of=len(speaking),
            p_value=p_value,
            p_values=tuple(p_values),
            shown=repeat,
        ),
    )


def _rank(cluster: ClusterResult) -> tuple[bool, int, float]:
    """Return the sort key: significant clusters in the order in which they were found come
    first."""
    if cluster.significant:
        return False, 0, 0.0
    found = cluster.repeats.found if cluster.repeats else 0
    return True, -found, 0.0 if cluster.support is None else -cluster.support


def _are_like(one: ClusterResult, other: ClusterResult) -> bool:
    # Imports the kernels, which are slow to load.
    from atd_dask.kernels.proposals import Proposal

    return Proposal(one.rows, 0.0).is_like(Proposal(other.rows, 0.0))
