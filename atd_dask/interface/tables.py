"""Results for standard output: tables, and what a store holds."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from atd_dask.interface.wording import clean


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table: framed on a terminal, columns of plain text elsewhere."""
    lines = [[clean(cell) for cell in row] for row in (header, *rows)]
    if sys.stdout.isatty():
        _print_framed(lines)
        return
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())


def _print_framed(lines: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for cell in lines[0]:
        table.add_column(Text(cell), overflow="fold")
    for line in lines[1:]:
        table.add_row(*map(Text, line))
    Console().print(table)


def print_corpora(parts: Mapping[str, Mapping[str, Any]]) -> None:
    """What ingest made: a row for each part of the corpus, and a line for each reason why documents
    were skipped."""
    header = ("part", "documents", "tokens", "terms", "skipped", "store")
    rows = []
    remarks = []
    for name, part in parts.items():
        skipped = {reason: part["skipped"][reason] for reason in sorted(part["skipped"])}
        sizes = [part["documents"], part["tokens"], part["terms"]]
        sizes.append(sum(found["documents"] for found in skipped.values()))
        rows.append((name, *(f"{size:,}" for size in sizes), part["path"]))
        remarks += [
            f"{name}: skipped {found['documents']:,}, {reason}; the first: {found['first']}"
            for reason, found in skipped.items()
        ]
    print_table(header, rows)
    for remark in remarks:
        print(clean(remark))


def print_model(model: Mapping[str, Any]) -> None:
    """What training made."""
    print(
        clean(
            f"null model: {model['n_topics']} topics, BIC {model['bic']:,.1f},"
            f" {model['topics_per_document']:.2f} topics a document,"
            f" {model['salient_words_per_topic']:.1f} words of its own a topic, {model['path']}"
        )
    )


def print_clusters(result: Mapping[str, Any]) -> None:
    """What detection found: a row for each cluster, the one that was not significant included."""
    header = ["cluster", "documents", "p-value", "significant", "words"]
    judged = any("evaluation" in cluster for cluster in result["clusters"])
    if judged:
        header += ["label", "recall", "precision", "F1"]
    rows = []
    for cluster in result["clusters"]:
        words = [w["word"] for w in cluster["salient_words"] if w["occurring"]][:8]
        row = [
            str(cluster["index"]),
            f"{cluster['size']:,}",
            f"{cluster['p_value']:.4g}",
            "yes" if cluster["significant"] else "no",
            " ".join(words),
        ]
        if judged:
            found = cluster.get("evaluation")
            row += (
                [found["label"], *(f"{found[name]:.2f}" for name in ("recall", "precision", "f1"))]
                if found
                else ["", "", "", ""]
            )
        rows.append(row)
    if rows:
        print_table(header, rows)
    else:
        print("no cluster was found")


def format_facts(facts: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """A line for each fact; what holds further facts is followed by them."""
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield clean(f"{indent}{name}:")
            yield from format_facts(value, f"{indent}  ")
        elif isinstance(value, list | tuple):
            yield clean(f"{indent}{name}: {', '.join(map(str, value))}")
        else:
            shown = f"{value:,}" if isinstance(value, int) else str(value)
            yield clean(f"{indent}{name}: {shown}")
