"""The page of the paper's tables, with its figures next to ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from atd_dask.evaluation import paper
from atd_dask.evaluation.comparison import Spread
from atd_dask.evaluation.paper_tables import CorpusFigures, Table
from atd_dask.report.charts import MethodRow, draw_methods
from atd_dask.report.page import fill, read

FIGURES = {
    "group_f1": "group F1",
    "group_auc": "group AUC",
    "individual_f1": "individual F1",
    "individual_auc": "individual AUC",
}


@dataclass(frozen=True)
class CorpusCharts:
    """The comparison on one corpus at a glance."""

    title: str
    charts: tuple[tuple[str, Markup], ...]


def render_tables(tables: Sequence[Table], corpora: Sequence[CorpusFigures]) -> bytes:
    """Render the page; the same figures give the same bytes."""
    charts = [_draw_corpus(one) for one in corpora]
    return fill("comparison.html.j2", read("page.css"), "", tables=tables, corpora=charts)


def _draw_corpus(figures: CorpusFigures) -> CorpusCharts:
    charts = []
    for figure, name in FIGURES.items():
        rows = []
        for method in figures.methods:
            ours: Spread | None = getattr(method, figure)
            theirs = paper.COMPARISON[figures.corpus].get(method.method, paper.PaperFigures())
            if ours is not None:
                label = paper.METHODS[method.method]
                rows.append(
                    MethodRow(label, ours.mean, ours.low, ours.high, getattr(theirs, figure))
                )
        charts.append((name, draw_methods(rows, name)))
    return CorpusCharts(paper.TITLES[figures.corpus], tuple(charts))
