"""What a detection made of a problem, and the figures over many: found, false, by chance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TypeAlias

import numpy as np

from atd_dask.evaluation.metrics import Labels, compare
from atd_dask.evaluation.problem_documents import BURSTY, COPIES
from atd_dask.evaluation.problems import Problem
from atd_dask.json_records import JsonObject
from atd_dask.kernels.calibration import estimate_p_value
from atd_dask.kernels.model import Ints

CONFIDENCE = 0.95

Candidate: TypeAlias = JsonObject
Row: TypeAlias = JsonObject


def describe_problem(problem: Problem) -> Row:
    """What is told of a problem beside what was found."""
    return {
        "name": problem.name,
        "half": problem.half,
        "corpus": problem.corpus,
        "digest": problem.digest,
        "train": len(problem.train),
        "validation": len(problem.validation),
        "batch": len(problem.batches[0]) + problem.copies + len(problem.bursts),
        "groups": [asdict(group) for group in problem.groups],
        "copies": problem.copies,
        "bursty": len(problem.bursts),
    }


def judge_run(planted: Mapping[str, int], seed: int, candidates: Sequence[Candidate]) -> Row:
    """The candidates of one detection against what was planted: classes, and how many documents of
    each the batch has once near-copies are grouped.

    A class is found by the first significant cluster most of whose documents are of it; recall is
    over all its documents in the batch. A significant cluster of no such class is false.
    """
    judged = [judge_candidate(candidate, tuple(planted)) for candidate in candidates]
    found: dict[str, Row] = {}
    false = {"all": 0, "copies": 0, "bursty": 0}
    for candidate, one in zip(candidates, judged, strict=True):
        label = one["majority"]
        if not one["significant"]:
            continue
        if label in planted and one["of_it"] * 2 > one["size"]:
            hits = [label in labels.split() for labels in candidate["labels"]]
            agreement = compare(hits, planted[label])
            one["f1"], one["auc"] = agreement.f1, agreement.auc
            found.setdefault(label, {"f1": agreement.f1, "auc": agreement.auc})
        else:
            false["all"] += 1
            for name, junk in (("copies", COPIES), ("bursty", BURSTY)):
                false[name] += label == junk and one["of_it"] * 2 > one["size"]
    documents = compare(
        [
            not planted.keys().isdisjoint(labels.split())
            for candidate in candidates
            if candidate["significant"]
            for labels in candidate["labels"]
        ],
        sum(planted.values()),
    )
    individual = {"f1": documents.f1, "auc": documents.auc}
    return {
        "seed": seed,
        "candidates": judged,
        "found": found,
        "false": false,
        "individual": individual,
    }


def judge_ranking(order: Ints, labels: Labels, anomalous: Sequence[str]) -> Row:
    """A ranking of a batch, cut where the number of planted documents says."""
    true = [not set(anomalous).isdisjoint(some) for some in labels]
    n_true = sum(true)
    agreement = compare([true[row] for row in order[:n_true].tolist()], n_true)
    return {"f1": agreement.f1, "auc": agreement.auc}


def judge_groups(groups: Sequence[Ints], labels: Labels, planted: Mapping[str, int]) -> Row:
    """Groups of a batch, the most anomalous first, cut where the number of planted classes says."""
    candidates = [
        {
            "labels": [" ".join(labels[row]) for row in group.tolist()],
            "significant": True,
            **dict.fromkeys(("p_value", "search_p_value", "support", "gain")),
        }
        for group in groups[: len(planted)]
    ]
    judged = judge_run(planted, 0, candidates)
    return {"found": judged["found"], "false": judged["false"]["all"]}


def judge_candidate(candidate: Candidate, anomalous: Sequence[str]) -> Row:
    """A candidate with its majority: the class or the kind of junk that more than half of its
    documents are of, or else its most frequent label."""
    size = len(candidate["labels"])
    counts = Counter(label for labels in candidate["labels"] for label in set(labels.split()))
    own = [label for label in (*anomalous, COPIES, BURSTY) if 2 * counts[label] > size]
    # Of equals the first in the alphabet: what came first in a batch is no reason.
    majority = min(own or counts, key=lambda label: (-counts[label], label), default="")
    return {
        "size": size,
        "majority": majority,
        "of_it": counts[majority],
        "significant": candidate["significant"],
        "p_value": candidate["p_value"],
        "search_p_value": candidate["search_p_value"],
        "support": candidate["support"],
        "gain": candidate["gain"],
    }


def judge_null(split: Problem, number: int, candidates: Sequence[Candidate]) -> Row:
    """A batch with nothing planted: whatever is significant in it is a false alarm."""
    judged = [judge_candidate(candidate, ()) for candidate in candidates]
    return {
        "name": split.name,
        "half": split.half,
        "corpus": split.corpus,
        "digest": split.digest,
        "batch": number,
        "size": len(split.batches[number]),
        "train": len(split.train),
        "alarms": sum(candidate["significant"] for candidate in judged),
        "p_value": batch_p_value(judged),
        "candidates": judged,
    }


def judge_searches(split: Problem, support: Sequence[float]) -> Row:
    """Return the p-value of each held-out search of a split, judged by the others."""
    p_values = [
        estimate_p_value(own, np.array([*support[:n], *support[n + 1 :]]))
        for n, own in enumerate(support)
        if len(support) > 1
    ]
    return {"name": split.name, "corpus": split.corpus, "p_values": p_values}


def batch_p_value(candidates: Sequence[Candidate]) -> float:
    """How often chance does as well as the search of a whole batch. The reference is the best
    candidate of each held-out search, so the best one of the batch is what compares with it; where
    no search was made in held-out documents, the candidates' own tests stand in."""
    names = [
        "p_value" if candidate["search_p_value"] is None else "search_p_value"
        for candidate in candidates
    ]
    p_values = (float(one[name]) for one, name in zip(candidates, names, strict=True))
    return min(p_values, default=1.0)


def sum_up(problems: Sequence[Row], size: int | None = None) -> Row | None:
    """The figures of some problems over all their runs, of groups of one size or of all; None
    where there are none."""
    groups = [
        run["found"].get(group["label"])
        for problem in problems
        for run in problem["runs"]
        for group in problem["groups"]
        if size is None or group["size"] == size
    ]
    if not groups:
        return None
    found = [group for group in groups if group is not None]
    runs = [run for problem in problems for run in problem["runs"]]
    row: Row = {
        "groups": len(groups),
        "found": len(found),
        "f1": mean(one["f1"] for one in found),
        "auc": mean(one["auc"] for one in found),
    }
    if size is None:
        row |= {"runs": len(runs)}
        row |= {kind: sum(run["false"][kind] for run in runs) for kind in runs[0]["false"]}
    return row


def sum_up_nulls(nulls: Sequence[Row]) -> Row:
    """False alarms of some null batches, and how often p-values are small."""
    n = len(nulls)
    alarms = sum(batch["alarms"] > 0 for batch in nulls)
    small = {level: sum(b["p_value"] <= level + 1e-9 for b in nulls) for level in (0.05, 0.2)}
    return {
        "batches": n,
        "splits": len({batch["name"] for batch in nulls}),
        "alarms": (alarms, *interval(alarms, n)),
        "below_0.05": (small[0.05], *interval(small[0.05], n)),
        "below_0.2": (small[0.2], *interval(small[0.2], n)),
        "uniform": measure_uniformity([batch["p_value"] for batch in nulls]),
    }


def count_seeds(problems: Sequence[Row]) -> Counter[int]:
    """Of the planted groups, how many are found in so many seeds."""
    return Counter(
        sum(group["label"] in run["found"] for run in problem["runs"])
        for problem in problems
        for group in problem["groups"]
    )


def mean(values: Iterable[float]) -> float | None:
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else None


def measure_uniformity(p_values: Sequence[float]) -> float:
    """Return the p-value of the test of Kolmogorov and Smirnov that p-values are uniform."""
    from scipy.stats import kstest

    return float(kstest(p_values, "uniform").pvalue)


def interval(hits: int, n: int) -> tuple[float, float]:
    """The exact interval of Clopper and Pearson for a share."""
    from scipy.stats import beta

    tail = (1 - CONFIDENCE) / 2
    low = float(beta.ppf(tail, hits, n - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1 - tail, hits + 1, n - hits)) if hits < n else 1.0
    return low, high
