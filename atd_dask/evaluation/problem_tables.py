"""The tables of the benchmark of problems, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from atd_dask.evaluation.problem_figures import (
    Row,
    count_seeds,
    mean,
    sum_up,
    sum_up_nulls,
)
from atd_dask.evaluation.problems import HALVES

Seconds = Mapping[str, Mapping[str, float]]  # for each run, of its parts

SMALL = (0.001, 0.005, 0.01, 0.05, 0.2)  # p-values

NULL_REMARK = (
    "Intervals are those of Clopper and Pearson at 95 %, over batches. Batches of one split are"
    " disjoint but share the null model and the held-out searches, so the true intervals are"
    " somewhat wider. `uniform` is the p-value of Kolmogorov and Smirnov's test that p-values are."
)

BASELINE_REMARK = (
    "F1 and AUC are those of single documents. The other methods are told how many documents are"
    " planted, and name as many; ATD is told nothing, and has 0 where it finds nothing. It is ahead"
    " where its F1 is larger on the same problem."
)

GROUP_REMARK = (
    "KMeans ranks its clusters by how much more of them is in the batch than in training. It is"
    " told how many groups are planted, and names as many clusters; ATD is told nothing. F1 is over"
    " all planted groups, 0 for one that is not found. CPU s are those of a run, with the training"
    " of ATD."
)


SEARCH_REMARK = (
    "Each held-out search judged by the others of its split, as if it were a batch. A level means"
    " what it says if the share at or below it is no larger."
)


def write_tables(
    problems: Sequence[Row], nulls: Sequence[Row], searches: Sequence[Row], seconds: Seconds
) -> str:
    """What was found, by corpus and by size, for each half; the nulls, and the searches that they
    are judged by."""
    parts = []
    if problems:
        parts += ["## Planted groups", write_found(problems, seconds), write_sizes(problems)]
    if problems and len(problems[0]["runs"]) > 1:
        parts += ["## Stability", write_stability(problems)]
    if problems and "baselines" in problems[0]["runs"][0]:
        parts += ["## Methods that know the batch", write_baselines(problems), BASELINE_REMARK]
        parts += ["## Groups by KMeans", write_groups(problems, seconds), GROUP_REMARK]
    if nulls:
        parts += ["## Batches with nothing planted", write_nulls(nulls), NULL_REMARK]
    if any(split["p_values"] for split in searches):
        parts += ["## Held-out searches", write_searches(searches), SEARCH_REMARK]
    return "\n\n".join(parts) + "\n"


def write_found(problems: Sequence[Row], seconds: Seconds) -> str:
    """A row for each corpus and for each size of a group."""
    header = (
        *("half", "planted in", "runs", "groups", "found", "share", "F1", "AUC"),
        *("false clusters", "a run", "copies", "bursty", "CPU s training", "CPU s detection"),
    )
    rows = []
    for half in HALVES:
        mine = [problem for problem in problems if problem["half"] == half]
        for corpus in dict.fromkeys(problem["corpus"] for problem in mine):
            some = [problem for problem in mine if problem["corpus"] == corpus]
            rows.append([half, corpus, *_show_found(some, None, seconds)])
        for size in _list_sizes(mine):
            rows.append([half, f"groups of {size}", *_show_found(mine, size, seconds)])
        if mine:
            rows.append([half, "all", *_show_found(mine, None, seconds)])
    return format_table(header, rows)


def _show_found(problems: Sequence[Row], size: int | None, seconds: Seconds) -> list[str]:
    row = sum_up(problems, size)
    assert row is not None
    shown = [
        "" if size else str(row["runs"]),
        str(row["groups"]),
        str(row["found"]),
        f"{row['found'] / row['groups']:.0%}",
        _show(row["f1"]),
        _show(row["auc"]),
    ]
    if size:
        return shown + [""] * 6
    runs = [f"{p['name']} {run['seed']}" for p in problems for run in p["runs"]]
    shown += [str(row["all"]), _show(row["all"] / row["runs"])]
    shown += [str(row[kind]) for kind in ("copies", "bursty")]
    for part in ("training", "detection"):
        shown.append(_show(mean(seconds[run][part] for run in runs if run in seconds), 1))
    return shown


def write_sizes(problems: Sequence[Row]) -> str:
    """For each corpus, or share of a new topic, how many groups of each size are found."""
    sizes = _list_sizes(problems)
    rows = []
    for half in HALVES:
        mine = [problem for problem in problems if problem["half"] == half]
        for corpus in dict.fromkeys(problem["corpus"] for problem in mine):
            some = [problem for problem in mine if problem["corpus"] == corpus]
            rows.append([half, corpus, *_show_sizes(some, sizes)])
            shares = {group["share"] for p in some for group in p["groups"]} - {None}
            for share in sorted(shares):
                only = [_keep_share(problem, share) for problem in some]
                rows.append([half, f"{corpus}, {share:.0%}", *_show_sizes(only, sizes)])
        if mine:
            rows.append([half, "all", *_show_sizes(mine, sizes)])
    header = ("half", "found of planted", *(f"groups of {size}" for size in sizes))
    return format_table(header, rows)


def _keep_share(problem: Row, share: float) -> Row:
    return problem | {"groups": [g for g in problem["groups"] if g["share"] == share]}


def _show_sizes(problems: Sequence[Row], sizes: Sequence[int]) -> list[str]:
    rows = [sum_up(problems, size) for size in sizes]
    return ["" if row is None else f"{row['found']} of {row['groups']}" for row in rows]


def _list_sizes(problems: Iterable[Row]) -> list[int]:
    return sorted({group["size"] for problem in problems for group in problem["groups"]})


def write_stability(problems: Sequence[Row]) -> str:
    """In how many seeds a planted group is found; the same in all of them but one is stable."""
    n_seeds = len(problems[0]["runs"])
    header = (
        "half",
        *(f"found in {n} of {n_seeds}" for n in range(n_seeds, -1, -1)),
        "the same in all seeds but one",
    )
    rows = []
    for half in HALVES:
        counts = count_seeds([problem for problem in problems if problem["half"] == half])
        total = sum(counts.values())
        if total:
            stable = sum(n for seeds, n in counts.items() if min(seeds, n_seeds - seeds) <= 1)
            numbers = [str(counts[n]) for n in range(n_seeds, -1, -1)]
            rows.append([half, *numbers, f"{stable} of {total}"])
    return format_table(header, rows)


def write_baselines(problems: Sequence[Row]) -> str:
    """Planted documents against those that each method names, on the same problems."""
    names = list(problems[0]["runs"][0]["baselines"])
    header = ["half", "planted in", "runs", "ATD: F1, AUC"]
    header += [f"{name}: F1, AUC; ATD ahead" for name in names]
    rows = []
    for half in HALVES:
        mine = [problem for problem in problems if problem["half"] == half]
        for corpus in [*dict.fromkeys(problem["corpus"] for problem in mine), None]:
            some = [p for p in mine if corpus is None or p["corpus"] == corpus]
            runs = [run for problem in some for run in problem["runs"]]
            if runs:
                rows.append([half, corpus or "all", str(len(runs)), *_show_paired(runs, names)])
    return format_table(header, rows)


def _show_paired(runs: Sequence[Row], names: Sequence[str]) -> list[str]:
    own = [run["individual"] for run in runs]
    shown = [f"{_show(mean(o['f1'] for o in own))}, {_show(mean(o['auc'] for o in own))}"]
    for name in names:
        others = [run["baselines"][name] for run in runs]
        ahead = sum(o["f1"] > t["f1"] for o, t in zip(own, others, strict=True))
        f1, auc = (mean(other[figure] for other in others) for figure in ("f1", "auc"))
        shown.append(f"{_show(f1)}, {_show(auc)}; {ahead} of {len(runs)}")
    return shown


def write_groups(problems: Sequence[Row], seconds: Seconds) -> str:
    """Planted groups found by each method that makes groups, and what else it names."""
    told = problems[0]["runs"][0]["baselines"]
    names = ["ATD", *(name for name in told if "found" in told[name])]
    header = ["half", "planted in", "runs", "groups"]
    header += [f"{name}: found, F1; false a run; CPU s" for name in names]
    rows = []
    for half in HALVES:
        mine = [problem for problem in problems if problem["half"] == half]
        for corpus in [*dict.fromkeys(problem["corpus"] for problem in mine), None]:
            some = [p for p in mine if corpus is None or p["corpus"] == corpus]
            runs = [(problem, run) for problem in some for run in problem["runs"]]
            if runs:
                n_groups = sum(len(problem["groups"]) for problem, _ in runs)
                shown = [_show_groups(runs, name, n_groups, seconds) for name in names]
                rows.append([half, corpus or "all", str(len(runs)), str(n_groups), *shown])
    return format_table(header, rows)


def _show_groups(
    runs: Sequence[tuple[Row, Row]], name: str, n_groups: int, seconds: Seconds
) -> str:
    found: list[Row] = []
    false, spent = 0, 0.0
    for problem, run in runs:
        times = seconds[f"{problem['name']} {run['seed']}"]
        if name == "ATD":
            found += run["found"].values()
            false += run["false"]["all"]
            spent += times["training"] + times["detection"]
        else:
            found += run["baselines"][name]["found"].values()
            false += run["baselines"][name]["false"]
            spent += times[name]
    f1 = sum(one["f1"] for one in found) / n_groups
    return f"{len(found)}, {f1:.2f}; {false / len(runs):.2f}; {spent / len(runs):.1f}"


def write_nulls(nulls: Sequence[Row]) -> str:
    """A row for each corpus and batch size, and for all together."""
    header = (
        *("half", "batches of", "splits", "batches"),
        *("with an alarm (interval)", "p-value at most 0.05", "p-value at most 0.2"),
        "uniform",
    )
    rows = []
    for half in HALVES:
        mine = [batch for batch in nulls if batch["half"] == half]
        for corpus, size in dict.fromkeys((b["corpus"], b["size"]) for b in mine):
            some = [b for b in mine if (b["corpus"], b["size"]) == (corpus, size)]
            rows.append([half, f"{corpus}, {size:,}", *_show_nulls(some)])
        if mine:
            rows.append([half, "all", *_show_nulls(mine)])
    both = dict.fromkeys(batch["corpus"] for batch in nulls)
    if len({batch["half"] for batch in nulls}) > 1:
        for corpus in both:
            some = [batch for batch in nulls if batch["corpus"] == corpus]
            rows.append(["both", corpus, *_show_nulls(some)])
        rows.append(["both", "all", *_show_nulls(nulls)])
    return format_table(header, rows)


def _show_nulls(nulls: Sequence[Row]) -> list[str]:
    row = sum_up_nulls(nulls)
    shares = []
    for name in ("alarms", "below_0.05", "below_0.2"):
        hits, low, high = row[name]
        shares.append(f"{hits}: {hits / row['batches']:.3f} ({low:.3f} to {high:.3f})")
    return [str(row["splits"]), str(row["batches"]), *shares, f"{row['uniform']:.2f}"]


def write_searches(searches: Sequence[Row]) -> str:
    """A row for each corpus: how often held-out searches have small p-values."""
    header = ("corpus", "searches", *(f"at most {level:g}" for level in SMALL))
    named = {corpus: [corpus] for corpus in dict.fromkeys(split["corpus"] for split in searches)}
    rows = []
    for name, corpora in (named | {"all": list(named)}).items():
        p_values = [
            p for split in searches if split["corpus"] in corpora for p in split["p_values"]
        ]
        hits = [sum(p <= level for p in p_values) for level in SMALL]
        shares = [f"{n}: {n / len(p_values):.4f}" for n in hits] if p_values else []
        rows.append([name, str(len(p_values)), *shares])
    return format_table(header, rows)


def write_candidates(problems: Sequence[Row], nulls: Sequence[Row]) -> str:
    """A row for every candidate of every run."""
    header = (
        *("problem", "seed", "batch", "planted", "candidate", "documents", "majority"),
        *("support", "by search", "gain", "p-value", "significant", "F1"),
    )
    rows = []
    for problem in problems:
        planted = ", ".join(_show_group(group) for group in problem["groups"])
        planted += "".join(
            f", {problem[kind]} {kind}" for kind in ("copies", "bursty") if problem[kind]
        )
        for run in problem["runs"]:
            start = [problem["name"], str(run["seed"]), str(problem["batch"]), planted]
            rows += _show_candidates(start, run["candidates"])
    for batch in nulls:
        start = [batch["name"], "1", f"{batch['batch'] + 1}: {batch['size']}", "nothing"]
        rows += _show_candidates(start, batch["candidates"])
    return f"## Every candidate\n\n{format_table(header, rows)}\n"


def _show_group(group: Row) -> str:
    share = "" if group["share"] is None else f" ({group['share']:.0%})"
    return f"{group['size']} {group['label']}{share}"


def _show_candidates(start: list[str], candidates: Sequence[Row]) -> list[list[str]]:
    if not candidates:
        return [[*start, "none", *[""] * 8]]
    return [
        [
            *start,
            str(number),
            str(one["size"]),
            f"{one['of_it']} {one['majority']}",
            f"{one['support']:.1f}",
            _show(one["search_p_value"], 3),
            f"{one['gain']:.1f}",
            _show(one["p_value"], 3),
            "yes" if one["significant"] else "no",
            _show(one.get("f1")),
        ]
        for number, one in enumerate(candidates, 1)
    ]


def _show(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def format_table(header: Sequence[Any], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
