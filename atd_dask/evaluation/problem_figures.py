"""What a detection made of a problem, and the figures of many: groups found, false clusters, false
alarms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from atd_dask.evaluation.metrics import Labels, compare
from atd_dask.evaluation.problem_documents import BURSTY, COPIES
from atd_dask.evaluation.problems import Group, Problem
from atd_dask.evaluation.rates import Rate
from atd_dask.json_records import OMITTED, JsonRecord
from atd_dask.kernels.calibration import estimate_p_value
from atd_dask.kernels.model import Ints
from atd_dask.result_types import Agreement

LEVELS = (0.05, 0.2)  # at which the p-values of null batches are counted


@dataclass(frozen=True, kw_only=True)
class Candidate(JsonRecord):
    """A candidate of a detection, with the labels of its documents."""

    documents: tuple[int, ...] = ()
    labels: tuple[str, ...]  # of each document, separated by spaces
    significant: bool
    p_value: float
    search_p_value: float | None
    support: float
    gain: float


@dataclass(frozen=True, kw_only=True)
class JudgedCandidate(JsonRecord):
    """A candidate, and what most of its documents are."""

    size: int
    majority: str  # a label
    of_it: int  # documents with that label
    significant: bool
    p_value: float
    search_p_value: float | None
    support: float
    gain: float
    f1: float | None = field(default=None, metadata=OMITTED)
    auc: float | None = field(default=None, metadata=OMITTED)


@dataclass(frozen=True)
class FalseClusters(JsonRecord):
    """Significant clusters of no planted class, and how many of them are junk of either kind."""

    all: int = 0
    copies: int = 0
    bursty: int = 0


@dataclass(frozen=True)
class JudgedGroups(JsonRecord):
    """The planted groups that a method found, and how many false ones it named."""

    found: Mapping[str, Agreement]
    false: int


@dataclass(frozen=True, kw_only=True)
class BaselineFigures(JsonRecord):
    """The figures of another method, which knows how many documents and groups are planted."""

    individual: Agreement  # of single documents
    groups: JudgedGroups | None = field(default=None, metadata=OMITTED)


@dataclass(frozen=True, kw_only=True)
class RunFigures(JsonRecord):
    """What was found in a problem with one seed."""

    seed: int
    candidates: tuple[JudgedCandidate, ...]
    found: Mapping[str, Agreement]  # by the label of the group
    false: FalseClusters
    individual: Agreement  # of single documents
    n_topics: int | None = field(default=None, metadata=OMITTED)
    baselines: Mapping[str, BaselineFigures] | None = field(default=None, metadata=OMITTED)


@dataclass(frozen=True, kw_only=True)
class ProblemFigures(JsonRecord):
    """A problem, and its runs."""

    name: str
    half: str
    corpus: str
    digest: str
    train: int
    validation: int
    batch: int
    groups: tuple[Group, ...]
    copies: int
    bursty: int
    runs: tuple[RunFigures, ...] = ()


@dataclass(frozen=True, kw_only=True)
class NullFigures(JsonRecord):
    """What was found in a batch with nothing planted."""

    name: str  # of the split
    half: str
    corpus: str
    digest: str
    batch: int
    size: int
    train: int
    alarms: int
    p_value: float
    candidates: tuple[JudgedCandidate, ...]


@dataclass(frozen=True)
class SearchFigures(JsonRecord):
    """The p-values of the held-out searches of a split."""

    name: str
    corpus: str
    p_values: tuple[float, ...]


@dataclass(frozen=True)
class Totals:
    """The figures of several problems over all their runs."""

    groups: int
    found: int
    f1: float | None  # the mean of the groups found
    auc: float | None
    runs: int
    false: FalseClusters


@dataclass(frozen=True)
class NullTotals:
    """The figures of several null batches."""

    batches: int
    splits: int
    alarms: Rate
    small: tuple[Rate, ...]  # p-values at or below each of `LEVELS`
    uniform: float  # the p-value of the test that p-values are uniform


def describe_problem(problem: Problem) -> ProblemFigures:
    """Return the figures of a problem that has no runs yet."""
    return ProblemFigures(
        name=problem.name,
        half=problem.half,
        corpus=problem.corpus,
        digest=problem.digest,
        train=len(problem.train),
        validation=len(problem.validation),
        batch=len(problem.batches[0]) + problem.copies + len(problem.bursts),
        groups=problem.groups,
        copies=problem.copies,
        bursty=len(problem.bursts),
    )


def judge_run(planted: Mapping[str, int], seed: int, candidates: Sequence[Candidate]) -> RunFigures:
    """Compare the candidates of a detection with what was planted.

    A class is found by the first significant cluster that has a majority of its documents; recall
    is over all its documents in the batch. Any other significant cluster is false, unless it has a
    majority of a class that is found already.

    Parameters
    ----------
    planted
        For each anomalous class, how many of its documents are in the batch. Near-copies count
        once.
    seed
        The seed of the run.
    candidates
        What the detection found.
    """
    judged = []
    found: dict[str, Agreement] = {}
    false = Counter[str]()
    for candidate in candidates:
        one = judge_candidate(candidate, tuple(planted))
        is_majority = one.of_it * 2 > one.size
        if one.significant and one.majority in planted and is_majority:
            hits = [one.majority in labels.split() for labels in candidate.labels]
            agreement = compare(hits, planted[one.majority])
            found.setdefault(one.majority, agreement)
            one = replace(one, f1=agreement.f1, auc=agreement.auc)
        elif one.significant:
            false["all"] += 1
            for name, junk in (("copies", COPIES), ("bursty", BURSTY)):
                false[name] += one.majority == junk and is_majority
        judged.append(one)
    documents = [
        not planted.keys().isdisjoint(labels.split())
        for candidate in candidates
        if candidate.significant
        for labels in candidate.labels
    ]
    return RunFigures(
        seed=seed,
        candidates=tuple(judged),
        found=found,
        false=FalseClusters(**false),
        individual=compare(documents, sum(planted.values())),
    )


def judge_ranking(order: Ints, labels: Labels, anomalous: Sequence[str]) -> Agreement:
    """Compare the first documents of a ranking, as many as are planted, with those planted."""
    true = [not set(anomalous).isdisjoint(some) for some in labels]
    n_true = sum(true)
    return compare([true[row] for row in order[:n_true].tolist()], n_true)


def judge_groups(
    groups: Sequence[Ints], labels: Labels, planted: Mapping[str, int]
) -> JudgedGroups:
    """Compare the first groups, as many as there are planted classes, with these classes; the most
    anomalous group comes first."""
    candidates = [
        Candidate(
            labels=tuple(" ".join(labels[row]) for row in group.tolist()),
            significant=True,
            p_value=0.0,
            search_p_value=None,
            support=0.0,
            gain=0.0,
        )
        for group in groups[: len(planted)]
    ]
    judged = judge_run(planted, 0, candidates)
    return JudgedGroups(judged.found, judged.false.all)


def judge_candidate(candidate: Candidate, anomalous: Sequence[str]) -> JudgedCandidate:
    """Return a candidate with its majority: the anomalous class or kind of junk that more than
    half of its documents carry, otherwise its most frequent label."""
    size = len(candidate.labels)
    counts = Counter(label for labels in candidate.labels for label in set(labels.split()))
    own = [label for label in (*anomalous, COPIES, BURSTY) if 2 * counts[label] > size]
    # Ties are broken by the alphabet, not by the order of the batch.
    majority = min(own or counts, key=lambda label: (-counts[label], label), default="")
    return JudgedCandidate(
        size=size,
        majority=majority,
        of_it=counts[majority],
        significant=candidate.significant,
        p_value=candidate.p_value,
        search_p_value=candidate.search_p_value,
        support=candidate.support,
        gain=candidate.gain,
    )


def judge_null(split: Problem, number: int, candidates: Sequence[Candidate]) -> NullFigures:
    """Judge a batch with nothing planted: every significant cluster is a false alarm."""
    judged = tuple(judge_candidate(candidate, ()) for candidate in candidates)
    return NullFigures(
        name=split.name,
        half=split.half,
        corpus=split.corpus,
        digest=split.digest,
        batch=number,
        size=len(split.batches[number]),
        train=len(split.train),
        alarms=sum(candidate.significant for candidate in judged),
        p_value=find_p_value(judged),
        candidates=judged,
    )


def judge_searches(split: Problem, support: Sequence[float]) -> SearchFigures:
    """Return the p-value of each held-out search of a split, judged by the others."""
    p_values = [
        estimate_p_value(own, np.array([*support[:n], *support[n + 1 :]]))
        for n, own in enumerate(support)
        if len(support) > 1
    ]
    return SearchFigures(split.name, split.corpus, tuple(p_values))


def find_p_value(candidates: Sequence[JudgedCandidate]) -> float:
    """Return the p-value of a whole batch: that of its best candidate.

    A held-out search is represented by its best candidate, so the two compare. Without held-out
    searches, the candidates' own tests are used.
    """
    p_values = (
        one.p_value if one.search_p_value is None else one.search_p_value for one in candidates
    )
    return min(p_values, default=1.0)


def sum_up(problems: Sequence[ProblemFigures], size: int | None = None) -> Totals | None:
    """Return the figures of problems over all their runs, for groups of one size or of all sizes;
    None if there are no such groups."""
    groups = [
        run.found.get(group.label)
        for problem in problems
        for run in problem.runs
        for group in problem.groups
        if size is None or group.size == size
    ]
    if not groups:
        return None
    found = [group for group in groups if group is not None]
    runs = [run for problem in problems for run in problem.runs]
    return Totals(
        groups=len(groups),
        found=len(found),
        f1=mean(one.f1 for one in found),
        auc=mean(one.auc for one in found),
        runs=len(runs),
        false=FalseClusters(
            all=sum(run.false.all for run in runs),
            copies=sum(run.false.copies for run in runs),
            bursty=sum(run.false.bursty for run in runs),
        ),
    )


def sum_up_nulls(nulls: Sequence[NullFigures]) -> NullTotals:
    """Return the false alarms of null batches, and how often p-values are small."""
    p_values = [batch.p_value for batch in nulls]
    return NullTotals(
        batches=len(nulls),
        splits=len({batch.name for batch in nulls}),
        alarms=Rate.count([batch.alarms > 0 for batch in nulls]),
        small=tuple(Rate.count([p <= level + 1e-9 for p in p_values]) for level in LEVELS),
        uniform=measure_uniformity(p_values),
    )


def count_seeds(problems: Sequence[ProblemFigures]) -> Counter[int]:
    """Count the planted groups by the number of seeds that found them."""
    return Counter(
        sum(group.label in run.found for run in problem.runs)
        for problem in problems
        for group in problem.groups
    )


def mean(values: Iterable[float]) -> float | None:
    """Return the mean, or None of nothing."""
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else None


def measure_uniformity(p_values: Sequence[float]) -> float:
    """Return the p-value of the Kolmogorov-Smirnov test that p-values are uniform."""
    from scipy.stats import kstest

    return float(kstest(p_values, "uniform").pvalue)
