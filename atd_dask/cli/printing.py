"""Prints results to standard output: tables, and the content of stores."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from atd_dask.report.dates import show_moment
from atd_dask.result_types import Alert, ClusterResult, CopyGroup, Result, SweepLine
from atd_dask.storage.run_layout import RunLayout
from atd_dask.wording import clean, fold, measure, shorten

if TYPE_CHECKING:
    from atd_dask.run_types import RunRecord
    from atd_dask.storage.runs import RunSummary
    from atd_dask.storage.stage_notes import CorpusSummary, ModelSummary

WIDTH = 80
GAP = "  "
SHOWN_WORDS = 8  # of a cluster
LABEL_LETTERS = 40
LEAST_WIDTH = 6  # of a column


def print_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    dim: Collection[int] = (),
    width: int | None = WIDTH,
) -> None:
    """Print a table: in a terminal with a frame and the rows in `dim` dimmed, and elsewhere as
    plain text that fits into `width`, if given."""
    lines = [[clean(cell) for cell in row] for row in (header, *rows)]
    if sys.stdout.isatty():
        _print_framed(lines, dim)
        return
    widths = [max(map(measure, column)) for column in zip(*lines, strict=True)]
    if width is not None:
        widths = _choose_widths(widths, width)
    for line in lines:
        cells = [fold(cell, room) for cell, room in zip(line, widths, strict=True)]
        for pieces in zip_longest(*cells, fillvalue=""):
            padded = (p + " " * (w - measure(p)) for p, w in zip(pieces, widths, strict=True))
            print(GAP.join(padded).rstrip())


def _choose_widths(widths: list[int], width: int) -> list[int]:
    """Shrink the widest columns until all fit, and return the widths."""
    room = width - len(GAP) * (len(widths) - 1)
    while sum(widths) > room and max(widths) > LEAST_WIDTH:
        widest = widths.index(max(widths))
        widths[widest] -= 1
    return widths


def _print_line(text: str) -> None:
    """Print a line of text, wrapped at WIDTH with a hanging indent."""
    line = clean(text)
    print("\n  ".join([line] if measure(line) <= WIDTH else fold(line, WIDTH - 2)))


def _print_framed(lines: Sequence[Sequence[str]], dim: Collection[int]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for cell in lines[0]:
        table.add_column(Text(cell), overflow="fold")
    for place, line in enumerate(lines[1:]):
        table.add_row(*map(Text, line), style="dim" if place in dim else None)
    Console().print(table)


def print_corpora(parts: CorpusSummary) -> None:
    """Print the result of ingest: a row for each part of the corpus, a line for each reason to skip
    documents, and the paths of the stores."""
    header = ("part", "documents", "copies", "tokens", "terms", "skipped")
    rows = []
    remarks = []
    for name, part in parts.items():
        n_skipped = sum(skipped.documents for skipped in part.skipped.values())
        sizes = (part.documents, part.copies or 0, part.tokens, part.terms, n_skipped)
        rows.append((name, *(f"{size:,}" for size in sizes)))
        remarks += [
            f"{name}: skipped {skipped.documents:,}, {reason}; the first: {skipped.first}"
            for reason, skipped in sorted(part.skipped.items())
        ]
    print_table(header, rows)
    for remark in remarks:
        _print_line(remark)
    print_outputs({f"store of {name}": part.path for name, part in parts.items()})


def print_model(model: ModelSummary) -> None:
    """Print the result of training."""
    _print_line(
        f"null model: {model.n_topics} topics, BIC {model.bic:,.1f},"
        f" {model.topics_per_document:.2f} topics per document,"
        f" {model.salient_words_per_topic:.1f} salient words per topic"
    )
    print_outputs({"null model": model.path})


# The figures of a cluster by heading.
_FIGURES: Mapping[str, Callable[[ClusterResult], float | None]] = {
    "support": lambda cluster: cluster.support,
    "search p-value": lambda cluster: cluster.search_p_value,
    "p-value": lambda cluster: cluster.p_value,
}


def print_clusters(result: Result) -> None:
    """Print the result of detection: a row for each cluster, followed by the candidates that
    failed, then their words and their agreement with the labels.

    Figures that no candidate has, such as those of repeats, are left out.
    """
    clusters = result.clusters
    figures = {
        name: read
        for name, read in _FIGURES.items()
        if any(read(cluster) is not None for cluster in clusters)
    }
    is_repeated = result.repeats is not None
    header = ["cluster", "documents", *figures, *(["repeats"] if is_repeated else ())]
    rows = [
        [
            str(cluster.index),
            _count_documents(cluster),
            *(_show_figure(read(cluster)) for read in figures.values()),
            *([_count_repeats(cluster)] if is_repeated else ()),
            "yes" if cluster.significant else "no",
        ]
        for cluster in clusters
    ]
    if rows:
        failed = [n for n, one in enumerate(clusters) if not one.significant]
        print_table([*header, "significant"], rows, dim=failed)
    else:
        print("no cluster was found")
    if is_repeated and rows:
        shown = (f"{c.repeats.p_value:.2g} of {c.index}" for c in clusters if c.repeats)
        _print_line(f"p-values over all repeats, which decide: {', '.join(shown)}")
    for cluster in clusters:
        words = " ".join(word.form for word in cluster.raised_words[:SHOWN_WORDS])
        _print_line(f"words of {cluster.index}: {words or 'none'}")
    _print_agreement(clusters)
    if result.copies:
        _print_line(_describe_copies(result.copies))
    if result.evaluation is not None:
        for meaning, found in (
            ("mean of the significant clusters", result.evaluation.group),
            ("their documents together", result.evaluation.individual),
        ):
            print(f"{meaning}: F1 {found.f1:.2f}, AUC {found.auc:.2f}")


def _print_agreement(clusters: Sequence[ClusterResult]) -> None:
    rows = [
        [
            str(cluster.index),
            *(f"{value:.2f}" for value in (found.recall, found.precision, found.f1, found.auc)),
            shorten(found.label, LABEL_LETTERS),
        ]
        for cluster in clusters
        if (found := cluster.evaluation)
    ]
    if rows:
        print_table(["cluster", "recall", "precision", "F1", "AUC", "label"], rows)


def _show_figure(value: float | None) -> str:
    return "" if value is None else f"{value:,.4g}"


def _count_repeats(cluster: ClusterResult) -> str:
    """Return in how many repeats a cluster was found."""
    return f"{cluster.repeats.found} of {cluster.repeats.of}" if cluster.repeats else ""


def _count_documents(cluster: ClusterResult) -> str:
    """Return the size of a cluster; near-duplicates are counted separately."""
    return f"{cluster.size:,}" + (f" + {cluster.n_copies:,}" if cluster.n_copies else "")


def _describe_copies(groups: Sequence[CopyGroup]) -> str:
    number = f"{len(groups):,} group{'' if len(groups) == 1 else 's'}"
    n_docs = sum(group.size for group in groups)
    largest = f"{groups[0].size:,} documents, {' '.join(groups[0].forms[:SHOWN_WORDS])}"
    return (
        f"near-duplicates: {number} ({n_docs:,} documents) without a match in training;"
        f" the largest: {largest}"
    )


def print_outputs(places: Mapping[str, str]) -> None:
    """Print the paths of the results."""
    for what, path in places.items():
        print(clean(f"{what}: {path}"))


def print_sweeps(output: str, lines: Sequence[SweepLine], alerts: Sequence[Alert]) -> None:
    """Print a row for each sweep, and a line for each cluster with news."""
    layout = RunLayout(output)
    if not lines:
        print("nothing new")
    else:
        header = ("sweep", "new", "tested", "unseen words", "clusters")
        print_table(
            header,
            [
                (
                    str(line.sweep),
                    f"{line.documents:,}",
                    f"{line.tested:,}",
                    f"{line.unseen_share:.1%}",
                    str(len(line.clusters)),
                )
                for line in lines
            ],
        )
    for alert in alerts:
        for cluster in alert.clusters:
            news = "is new" if cluster.kind == "new" else "continues"
            words = " ".join(cluster.forms[:SHOWN_WORDS])
            _print_line(
                f"sweep {alert.sweep}: cluster {cluster.cluster} {news},"
                f" {len(cluster.documents):,} of {cluster.size:,} documents: {words}"
            )
    for line in lines:
        print(clean(f"report of sweep {line.sweep}: {layout.sweep(line.sweep).report}"))
    if lines:
        print(clean(f"history: {layout.history_page}"))


def print_run(summary: RunSummary) -> None:
    """Print the summary of the folder of a run."""
    run, result = summary.run, summary.result
    if summary.writer:
        print(clean(f"being written by {summary.writer}"))
    if run is not None:
        for line in _describe_run(run):
            print(clean(line))
    if result is not None:
        corpus = ", ".join(f"{name} {part.documents:,}" for name, part in result.corpus.items())
        print(clean(f"documents: {corpus}"))
        print(f"null model: {result.null_model.n_topics} topics")
        print_clusters(result)
    print_outputs(summary.places)


def _describe_run(run: RunRecord) -> Iterator[str]:
    error = f", {run.error}" if run.error else ""
    yield f"{run.name}: {run.status} after {run.seconds:,.1f} s{error}"
    yield f"started: {show_moment(run.started)}"
    for name, stage in run.stages.items():
        reused = ", reused" if stage.reused else ""
        ending = reused if stage.made else ", not finished"
        yield f"{name}: {stage.seconds_to_make:,.1f} s{ending}"
    if run.cluster is not None:
        workers, threads = run.cluster.workers, run.cluster.threads
        yield f"cluster: {workers} workers, {threads} threads at {run.cluster.address}"
    yield f"peak memory: {run.peak_memory_bytes / 2**20:,.0f} MiB"
    yield "versions: " + ", ".join(f"{name} {value}" for name, value in run.versions.items())


def format_facts(facts: Mapping[str, object], indent: str = "") -> Iterator[str]:
    """Yield a line for each fact; nested facts follow, indented."""
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield clean(f"{indent}{name}:")
            yield from format_facts(value, f"{indent}  ")
        elif isinstance(value, list | tuple):
            yield clean(f"{indent}{name}: {', '.join(map(str, value))}")
        else:
            shown = f"{value:,}" if isinstance(value, int) else str(value)
            yield clean(f"{indent}{name}: {shown}")
