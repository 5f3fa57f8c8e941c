"""Several detections of one batch, each with a null model of its own, become one result.

A candidate of a repeat speaks for the listed cluster that is like it: both have most of the smaller
one's documents. If there are several, it speaks for the one with which it shares most, so that what
is left of a cluster in one repeat does not pass for all of it in another. A cluster counts as found
in every repeat in which a significant candidate speaks for it. Whether it is significant is decided
by its p-values in all repeats together, where a repeat in which none speaks for it counts as 1.

The chance of a false alarm stays what it is for one detection. Where searches decide, the smallest
p-value of a repeat is one for the whole batch, and no cluster has a smaller one there. So none has
a smaller one over all repeats than these combined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from atd_dask.evaluation.copy_groups import name_homes
from atd_dask.kernels.p_values import combine_p_values, count_majority

Candidate = Mapping[str, Any]  # as a result lists it


def find_p_value(candidate: Candidate) -> float:
    """The p-value of a candidate that decides: that of the searches, where there are any."""
    by_search = candidate["search_p_value"]
    return float(candidate["p_value"] if by_search is None else by_search)


def combine_results(
    results: Sequence[Mapping[str, Any]], seeds: Sequence[int], level: float
) -> dict[str, Any]:
    """The result of the first repeat, judged by all of them.

    A cluster is listed as the first repeat that found it has it; then come those that are not
    significant: clusters of too few repeats, from most repeats to fewest, and the candidates that
    the first repeat lists and no repeat found. Whatever else the results say is that of the first,
    but for evaluations, which are to be made anew.
    """
    listed: list[tuple[int, Candidate]] = []
    for repeat, result in enumerate(results, 1):
        for cluster in result["clusters"]:
            if cluster["significant"] and not any(_are_like(cluster, one) for _, one in listed):
                listed.append((repeat, cluster))
    for candidate in results[0]["clusters"]:
        if not candidate["significant"] and not any(_are_like(candidate, one) for _, one in listed):
            listed.append((1, candidate))
    speaking = [_share_out(result["clusters"], [one for _, one in listed]) for result in results]
    judged = [
        _judge(repeat, one, [of_repeat[place] for of_repeat in speaking], level)
        for place, (repeat, one) in enumerate(listed)
    ]
    judged.sort(key=_rank)
    for index, cluster in enumerate(judged, 1):
        cluster["index"] = index
    combined = {**deepcopy(dict(results[0])), "clusters": judged}
    name_homes(combined.get("copies", ()), judged)
    combined["repeats"] = {
        "n": len(results),
        "majority": count_majority(len(results)),
        "null_models": [
            {
                "repeat": repeat,
                "seed": seed,
                "n_topics": result["null_model"]["n_topics"],
                "bic": result["null_model"]["bic"],
                "clusters": sum(cluster["significant"] for cluster in result["clusters"]),
            }
            for repeat, (seed, result) in enumerate(zip(seeds, results, strict=True), 1)
        ],
    }
    return combined


def _share_out(
    candidates: Sequence[Candidate], listed: Sequence[Candidate]
) -> list[list[Candidate]]:
    """For each listed cluster the candidates of a repeat that speak for it."""
    speaking: list[list[Candidate]] = [[] for _ in listed]
    for candidate in candidates:
        rows = set(_list_rows(candidate))
        common = {
            place: len(rows.intersection(_list_rows(one)))
            for place, one in enumerate(listed)
            if _are_like(candidate, one)
        }
        if common:
            speaking[max(common, key=lambda place: common[place])].append(candidate)
    return speaking


def _judge(
    repeat: int, cluster: Candidate, speaking: Sequence[Sequence[Candidate]], level: float
) -> dict[str, Any]:
    """A cluster with what all repeats say of it."""
    found = sum(any(one["significant"] for one in of_repeat) for of_repeat in speaking)
    p_values = [min(map(find_p_value, of_repeat), default=None) for of_repeat in speaking]
    p_value = combine_p_values([1.0 if p is None else p for p in p_values])
    return deepcopy(dict(cluster)) | {
        "significant": p_value <= level,
        "repeats": {
            "found": found,
            "of": len(speaking),
            "p_value": p_value,
            "p_values": p_values,  # none where nothing speaks for it
            "shown": repeat,  # the documents, words and other figures are those of this one
        },
    }


def _rank(cluster: Candidate) -> tuple[bool, int, float]:
    """Clusters stay in the order in which they were found; the others follow."""
    if cluster["significant"]:
        return False, 0, 0.0
    support = cluster["support"]
    return True, -cluster["repeats"]["found"], 0.0 if support is None else -support


def _are_like(one: Candidate, other: Candidate) -> bool:
    # Brings the kernels with it, which are slow to load.
    from atd_dask.kernels.proposals import Proposal

    mine, others = (Proposal(_list_rows(cluster), 0.0) for cluster in (one, other))
    return mine.is_like(others)


def _list_rows(cluster: Candidate) -> tuple[int, ...]:
    return tuple(document["row"] for document in cluster["documents"])
