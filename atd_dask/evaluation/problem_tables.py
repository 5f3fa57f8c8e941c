"""The tables of the benchmark of problems, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from atd_dask.evaluation.problem_figures import (
    LEVELS,
    JudgedCandidate,
    NullFigures,
    ProblemFigures,
    RunFigures,
    SearchFigures,
    count_seeds,
    mean,
    sum_up,
    sum_up_nulls,
)
from atd_dask.evaluation.problems import HALVES, Group
from atd_dask.result_types import Agreement

Seconds = Mapping[str, Mapping[str, float]]  # CPU seconds of each run, by part

SMALL = (0.001, 0.005, 0.01, 0.05, 0.2)  # p-values
N_BINS = 10
BAR, WIDTH = "█", 40  # of a histogram, and its longest bar

NULL_REMARK = (
    "Intervals are 95 % Clopper-Pearson intervals over batches. The batches of a split are disjoint"
    " but share the null model and the held-out searches, so the true intervals are somewhat wider."
    " `uniform` is the p-value of the Kolmogorov-Smirnov test that the p-values are uniform."
)

BASELINE_REMARK = (
    "F1 and AUC of single documents. The other methods are given the number of planted documents,"
    " and return that many. ATD is not, and scores 0 if it finds nothing. It is ahead if its F1 is"
    " larger on the same problem."
)

GROUP_REMARK = (
    "KMeans ranks its clusters by how much more frequent they are in the batch than in training. It"
    " is given the number of planted groups, and returns that many clusters. ATD is not. F1 is the"
    " mean over all planted groups, 0 for one that is not found. CPU s are per run; those of ATD"
    " include training."
)


SEARCH_REMARK = (
    "Each held-out search is judged by the others of its split, as if it were a batch. The share at"
    " or below a level should not exceed it."
)


def write_tables(
    problems: Sequence[ProblemFigures],
    nulls: Sequence[NullFigures],
    searches: Sequence[SearchFigures],
    seconds: Seconds,
) -> str:
    """Write what was found, for each half; the null batches, and the held-out searches."""
    parts = []
    if problems:
        parts += ["## Planted groups", write_found(problems, seconds), write_sizes(problems)]
    if problems and len(problems[0].runs) > 1:
        parts += ["## Stability", write_stability(problems)]
    if problems and problems[0].runs[0].baselines is not None:
        parts += ["## Methods that know the batch", write_baselines(problems), BASELINE_REMARK]
        parts += ["## Groups by KMeans", write_groups(problems, seconds), GROUP_REMARK]
    if nulls:
        parts += ["## Batches with nothing planted", write_nulls(nulls), NULL_REMARK]
        parts.append(draw_p_values([batch.p_value for batch in nulls]))
    if any(split.p_values for split in searches):
        parts += ["## Held-out searches", write_searches(searches), SEARCH_REMARK]
    return "\n\n".join(parts) + "\n"


def write_found(problems: Sequence[ProblemFigures], seconds: Seconds) -> str:
    """Write a row for each corpus and each group size."""
    header = (
        *("half", "planted in", "runs", "groups", "found", "share", "F1", "AUC"),
        *("false clusters", "a run", "copies", "bursty", "CPU s training", "CPU s detection"),
    )
    rows = []
    for half in HALVES:
        mine = [problem for problem in problems if problem.half == half]
        for corpus in dict.fromkeys(problem.corpus for problem in mine):
            some = [problem for problem in mine if problem.corpus == corpus]
            rows.append([half, corpus, *_show_found(some, None, seconds)])
        for size in _list_sizes(mine):
            rows.append([half, f"groups of {size}", *_show_found(mine, size, seconds)])
        if mine:
            rows.append([half, "all", *_show_found(mine, None, seconds)])
    return format_table(header, rows)


def _show_found(
    problems: Sequence[ProblemFigures], size: int | None, seconds: Seconds
) -> list[str]:
    totals = sum_up(problems, size)
    assert totals is not None
    shown = [
        "" if size else str(totals.runs),
        str(totals.groups),
        str(totals.found),
        f"{totals.found / totals.groups:.0%}",
        _show(totals.f1),
        _show(totals.auc),
    ]
    if size:
        return shown + [""] * 6
    runs = [f"{problem.name} {run.seed}" for problem in problems for run in problem.runs]
    shown += [str(totals.false.all), _show(totals.false.all / totals.runs)]
    shown += [str(totals.false.copies), str(totals.false.bursty)]
    for part in ("training", "detection"):
        shown.append(_show(mean(seconds[run][part] for run in runs if run in seconds), 1))
    return shown


def write_sizes(problems: Sequence[ProblemFigures]) -> str:
    """Write how many groups of each size are found, for each corpus and share of a new topic."""
    sizes = _list_sizes(problems)
    rows = []
    for half in HALVES:
        mine = [problem for problem in problems if problem.half == half]
        for corpus in dict.fromkeys(problem.corpus for problem in mine):
            some = [problem for problem in mine if problem.corpus == corpus]
            rows.append([half, corpus, *_show_sizes(some, sizes)])
            shares = {g.share for p in some for g in p.groups if g.share is not None}
            for share in sorted(shares):
                only = [_keep_share(problem, share) for problem in some]
                rows.append([half, f"{corpus}, {share:.0%}", *_show_sizes(only, sizes)])
        if mine:
            rows.append([half, "all", *_show_sizes(mine, sizes)])
    header = ("half", "found of planted", *(f"groups of {size}" for size in sizes))
    return format_table(header, rows)


def _keep_share(problem: ProblemFigures, share: float) -> ProblemFigures:
    return replace(problem, groups=tuple(g for g in problem.groups if g.share == share))


def _show_sizes(problems: Sequence[ProblemFigures], sizes: Sequence[int]) -> list[str]:
    totals = [sum_up(problems, size) for size in sizes]
    return ["" if one is None else f"{one.found} of {one.groups}" for one in totals]


def _list_sizes(problems: Iterable[ProblemFigures]) -> list[int]:
    return sorted({group.size for problem in problems for group in problem.groups})


def write_stability(problems: Sequence[ProblemFigures]) -> str:
    """Write how many seeds find a planted group. It is stable if all agree, or all but one."""
    n_seeds = len(problems[0].runs)
    header = (
        "half",
        *(f"found in {n} of {n_seeds}" for n in range(n_seeds, -1, -1)),
        "the same in all seeds but one",
    )
    rows = []
    for half in HALVES:
        counts = count_seeds([problem for problem in problems if problem.half == half])
        total = sum(counts.values())
        if total:
            stable = sum(n for seeds, n in counts.items() if min(seeds, n_seeds - seeds) <= 1)
            numbers = [str(counts[n]) for n in range(n_seeds, -1, -1)]
            rows.append([half, *numbers, f"{stable} of {total}"])
    return format_table(header, rows)


def write_baselines(problems: Sequence[ProblemFigures]) -> str:
    """Write how well each method names planted documents, on the same problems."""
    names = list(problems[0].runs[0].baselines or ())
    header = ["half", "planted in", "runs", "ATD: F1, AUC"]
    header += [f"{name}: F1, AUC; ATD ahead" for name in names]
    rows = []
    for half, corpus, some in _part_by_corpus(problems):
        runs = [run for problem in some for run in problem.runs]
        rows.append([half, corpus, str(len(runs)), *_show_paired(runs, names)])
    return format_table(header, rows)


def _part_by_corpus(
    problems: Sequence[ProblemFigures],
) -> Iterable[tuple[str, str, list[ProblemFigures]]]:
    """Yield the problems of each half: those of each corpus, then all of them."""
    for half in HALVES:
        mine = [problem for problem in problems if problem.half == half]
        for corpus in dict.fromkeys(problem.corpus for problem in mine):
            yield half, corpus, [problem for problem in mine if problem.corpus == corpus]
        if mine:
            yield half, "all", mine


def _show_paired(runs: Sequence[RunFigures], names: Sequence[str]) -> list[str]:
    own = [run.individual for run in runs]
    shown = [f"{_show(mean(o.f1 for o in own))}, {_show(mean(o.auc for o in own))}"]
    for name in names:
        others = [run.baselines[name].individual for run in runs if run.baselines is not None]
        ahead = sum(o.f1 > t.f1 for o, t in zip(own, others, strict=True))
        f1, auc = mean(other.f1 for other in others), mean(other.auc for other in others)
        shown.append(f"{_show(f1)}, {_show(auc)}; {ahead} of {len(runs)}")
    return shown


def write_groups(problems: Sequence[ProblemFigures], seconds: Seconds) -> str:
    """Write how many planted groups each method that makes groups finds, and what else it
    names."""
    told = problems[0].runs[0].baselines or {}
    names = ["ATD", *(name for name, figures in told.items() if figures.groups is not None)]
    header = ["half", "planted in", "runs", "groups"]
    header += [f"{name}: found, F1; false a run; CPU s" for name in names]
    rows = []
    for half, corpus, some in _part_by_corpus(problems):
        n_runs = sum(len(problem.runs) for problem in some)
        n_groups = sum(len(problem.runs) * len(problem.groups) for problem in some)
        shown = [_show_groups(some, name, n_groups, seconds) for name in names]
        rows.append([half, corpus, str(n_runs), str(n_groups), *shown])
    return format_table(header, rows)


def _show_groups(
    problems: Sequence[ProblemFigures], name: str, n_groups: int, seconds: Seconds
) -> str:
    found: list[Agreement] = []
    n_runs, false, spent = 0, 0, 0.0
    for problem in problems:
        for run in problem.runs:
            n_runs += 1
            times = seconds[f"{problem.name} {run.seed}"]
            if name == "ATD":
                found += run.found.values()
                false += run.false.all
                spent += times["training"] + times["detection"]
                continue
            groups = (run.baselines or {})[name].groups
            assert groups is not None
            found += groups.found.values()
            false += groups.false
            spent += times[name]
    f1 = sum(one.f1 for one in found) / n_groups
    return f"{len(found)}, {f1:.2f}; {false / n_runs:.2f}; {spent / n_runs:.1f}"


def write_nulls(nulls: Sequence[NullFigures]) -> str:
    """Write a row for each corpus and batch size, and one for all."""
    header = (
        *("half", "batches of", "splits", "batches", "with an alarm (interval)"),
        *(f"p-value at most {level:g}" for level in LEVELS),
        "uniform",
    )
    rows = []
    for half in HALVES:
        mine = [batch for batch in nulls if batch.half == half]
        for corpus, size in dict.fromkeys((b.corpus, b.size) for b in mine):
            some = [b for b in mine if (b.corpus, b.size) == (corpus, size)]
            rows.append([half, f"{corpus}, {size:,}", *_show_nulls(some)])
        if mine:
            rows.append([half, "all", *_show_nulls(mine)])
    if len({batch.half for batch in nulls}) > 1:
        for corpus in dict.fromkeys(batch.corpus for batch in nulls):
            some = [batch for batch in nulls if batch.corpus == corpus]
            rows.append(["both", corpus, *_show_nulls(some)])
        rows.append(["both", "all", *_show_nulls(nulls)])
    return format_table(header, rows)


def _show_nulls(nulls: Sequence[NullFigures]) -> list[str]:
    totals = sum_up_nulls(nulls)
    rates = [
        f"{rate.happened}: {rate.share:.3f} ({rate.low:.3f} to {rate.high:.3f})"
        for rate in (totals.alarms, *totals.small)
    ]
    return [str(totals.splits), str(totals.batches), *rates, f"{totals.uniform:.2f}"]


def draw_p_values(p_values: Sequence[float]) -> str:
    """Draw a histogram of p-values in ten bins, which are equally frequent if p-values are
    uniform."""
    counts = [0] * N_BINS
    for p in p_values:
        counts[min(int(p * N_BINS), N_BINS - 1)] += 1
    longest = max(counts)
    rows = [
        [
            f"{index / N_BINS:.1f} to {(index + 1) / N_BINS:.1f}",
            str(n),
            BAR * -(-WIDTH * n // longest),
        ]
        for index, n in enumerate(counts)
    ]
    return format_table(("p-value", "batches", ""), rows)


def write_searches(searches: Sequence[SearchFigures]) -> str:
    """Write for each corpus how often held-out searches have small p-values."""
    header = ("corpus", "searches", *(f"at most {level:g}" for level in SMALL))
    named = {corpus: [corpus] for corpus in dict.fromkeys(split.corpus for split in searches)}
    rows = []
    for name, corpora in (named | {"all": list(named)}).items():
        p_values = [p for split in searches if split.corpus in corpora for p in split.p_values]
        hits = [sum(p <= level for p in p_values) for level in SMALL]
        shares = [f"{n}: {n / len(p_values):.4f}" for n in hits] if p_values else []
        rows.append([name, str(len(p_values)), *shares])
    return format_table(header, rows)


def write_candidates(problems: Sequence[ProblemFigures], nulls: Sequence[NullFigures]) -> str:
    """Write a row for each candidate of each run."""
    header = (
        *("problem", "seed", "batch", "planted", "candidate", "documents", "majority"),
        *("support", "by search", "gain", "p-value", "significant", "F1"),
    )
    rows = []
    for problem in problems:
        planted = [_show_group(group) for group in problem.groups]
        junk = (("copies", problem.copies), ("bursty", problem.bursty))
        planted += [f"{n} {kind}" for kind, n in junk if n]
        for run in problem.runs:
            start = [problem.name, str(run.seed), str(problem.batch), ", ".join(planted)]
            rows += _show_candidates(start, run.candidates)
    for batch in nulls:
        start = [batch.name, "1", f"{batch.batch + 1}: {batch.size}", "nothing"]
        rows += _show_candidates(start, batch.candidates)
    return f"## Every candidate\n\n{format_table(header, rows)}\n"


def _show_group(group: Group) -> str:
    share = "" if group.share is None else f" ({group.share:.0%})"
    return f"{group.size} {group.label}{share}"


def _show_candidates(start: list[str], candidates: Sequence[JudgedCandidate]) -> list[list[str]]:
    if not candidates:
        return [[*start, "none", *[""] * 8]]
    return [
        [
            *start,
            str(number),
            str(one.size),
            f"{one.of_it} {one.majority}",
            f"{one.support:.1f}",
            _show(one.search_p_value, 3),
            f"{one.gain:.1f}",
            _show(one.p_value, 3),
            "yes" if one.significant else "no",
            _show(one.f1),
        ]
        for number, one in enumerate(candidates, 1)
    ]


def _show(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def format_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
