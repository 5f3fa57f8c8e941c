"""Several detections of one batch, each with a null model of its own, become one result.

A cluster counts as found in every repeat that has a significant one with most of the smaller one's
documents. Whether it is significant is decided by its p-values in all repeats together, where a
repeat without such a candidate counts as 1.

The chance of a false alarm stays what it is for one detection. Where searches decide, the smallest
p-value of a repeat is one for the whole batch, and no cluster has a smaller one there. So none has
a smaller one over all repeats than these combined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from atd_dask.evaluation.copies import name_homes
from atd_dask.evaluation.p_values import combine_p_values, count_majority

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
    judged = [_judge(repeat, one, results, level) for repeat, one in listed]
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


def _judge(
    repeat: int, cluster: Candidate, results: Sequence[Mapping[str, Any]], level: float
) -> dict[str, Any]:
    """A cluster with what all repeats say of it."""
    found = 0
    p_values: list[float | None] = []
    for result in results:
        like = [one for one in result["clusters"] if _are_like(cluster, one)]
        found += any(one["significant"] for one in like)
        p_values.append(min(map(find_p_value, like), default=None))
    p_value = combine_p_values([1.0 if p is None else p for p in p_values])
    return deepcopy(dict(cluster)) | {
        "significant": p_value <= level,
        "repeats": {
            "found": found,
            "of": len(results),
            "p_value": p_value,
            "p_values": p_values,  # none where a repeat has no candidate like it
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

    mine, others = (
        Proposal(tuple(document["row"] for document in cluster["documents"]), 0.0)
        for cluster in (one, other)
    )
    return mine.is_like(others)
