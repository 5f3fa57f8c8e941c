"""The view: everything a page shows, ready for the template.

Text of documents (words, ids, labels) is cleaned here, so that it cannot hide or reverse a line.
The template escapes it as HTML.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from atd_dask.json_records import look_up
from atd_dask.report import charts
from atd_dask.report.batch_picture import BatchPicture, view_batch
from atd_dask.report.calibration_view import SearchesView, view_searches
from atd_dask.report.cluster_times import Bins
from atd_dask.report.cluster_view import (
    SUMMARY_LETTERS,
    SUMMARY_WORDS,
    ClusterView,
    CopiesView,
    view_cluster,
    view_copies,
)
from atd_dask.report.numbers import (
    count,
    mark_moment,
    spell,
)
from atd_dask.report.sentences import (
    Phrase,
    say_verdict,
)
from atd_dask.report.sources import Sources
from atd_dask.result_types import (
    ClusterNews,
    Evaluation,
    ModelFigures,
)
from atd_dask.run_types import RunRecord
from atd_dask.stages.shown_texts import MOST_GROUPS
from atd_dask.text.passages import find_forms
from atd_dask.wording import clean, shorten


@dataclass(frozen=True)
class ContinuingView:
    """A cluster of earlier sweeps with new documents in this one."""

    number: int
    size: int
    about: tuple[str, ...]
    ids: tuple[str, ...]  # of the new documents


@dataclass(frozen=True)
class View:
    """The whole page."""

    name: str
    title: str
    verdict: tuple[Phrase, ...]
    found: tuple[ClusterView, ...]
    candidates: tuple[ClusterView, ...]  # that failed
    batch: BatchPicture | None  # if the scores of all documents are kept
    searched: bool  # whether searches in held-out documents decide
    n_repeats: int
    searches: SearchesView | None  # if the result lists them
    continuing: tuple[ContinuingView, ...]
    copies: tuple[CopiesView, ...]
    n_groups: int  # of near-duplicates, in total
    n_copied: int  # documents in these groups
    summary_metrics: tuple[tuple[str, str, str], ...]
    n_topics: int
    orders: Markup | None
    model_facts: tuple[tuple[str, str], ...]
    topics: tuple[tuple[str, ...], ...]
    parts: tuple[tuple[str, ...], ...]
    skipped: tuple[tuple[str, str], ...]
    command: str
    settings: tuple[tuple[str, str], ...]
    facts: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]
    digests: tuple[tuple[str, str], ...]

    @property
    def failed(self) -> str:
        """The number of candidates that failed, to start a sentence."""
        number = len(self.candidates)
        return f"{spell(number).capitalize()} candidate{'' if number == 1 else 's'}"

    @property
    def clusters(self) -> tuple[ClusterView, ...]:
        return self.found + self.candidates


def make_view(sources: Sources) -> View:
    """Make the view of a result; the same sources give the same view."""
    result, run = sources.result, sources.run
    settings = sources.settings if run is None else run.configuration
    level = look_up(settings, "detection", "significance", "level")
    forms = {}
    if sources.tokeniser is not None:
        forms = find_forms(sources.texts.values(), sources.tokeniser)
    bins = Bins.of(sources.dates)
    clusters = [view_cluster(cluster, sources, level, forms, bins) for cluster in result.clusters]
    found = tuple(cluster for cluster in clusters if cluster.significant)
    candidates = tuple(cluster for cluster in clusters if not cluster.significant)
    searched = all(cluster.reference_support is not None for cluster in result.clusters)
    n_documents = result.corpus["test"].documents
    verdict = say_verdict(
        n_documents,
        [(cluster.size, cluster.about) for cluster in found],
        candidates[0].size if candidates else None,
        searched,
        candidates[0].in_repeats if candidates else "",
    )
    name = shorten(result.name, 80)
    model = result.null_model
    return View(
        name=name,
        title=f"{name}: {count(len(found), 'significant cluster')}",
        verdict=verdict,
        found=found,
        candidates=candidates,
        batch=view_batch(
            sources.scores,
            result.significant,
            {cluster.index: cluster.about for cluster in found},
        ),
        searched=searched,
        n_repeats=result.repeats.n if result.repeats else 1,
        searches=view_searches(result, forms),
        continuing=tuple(_view_continuing(result.sweep.clusters)) if result.sweep else (),
        copies=tuple(
            view_copies(group, sources, forms) for group in result.copy_groups[:MOST_GROUPS]
        ),
        n_groups=len(result.copy_groups),
        n_copied=sum(group.size for group in result.copy_groups),
        summary_metrics=tuple(_view_metrics(result.evaluation)) if result.evaluation else (),
        n_topics=model.n_topics,
        orders=_draw_orders(model),
        model_facts=(
            ("topics", f"{model.n_topics:,}"),
            ("BIC", f"{model.bic:,.1f}"),
            ("topics per document", f"{model.topics_per_document:.2f}"),
            ("salient words per topic", f"{model.salient_words_per_topic:.1f}"),
        ),
        topics=tuple(tuple(map(clean, words)) for words in sources.topics),
        parts=tuple(
            (clean(part), f"{sizes.documents:,}", f"{sizes.tokens:,}", f"{sizes.terms:,}")
            for part, sizes in result.corpus.items()
        ),
        skipped=tuple(
            (clean(f"{part}: {reason}"), count(number, "document"))
            for part, reasons in sources.skipped.items()
            for reason, number in sorted(reasons.items())
        ),
        command=clean(shlex.join(run.command if run else ("atd-dask", "run", f"{name}.yaml"))),
        settings=tuple(_flatten({"seed": result.seed, **settings})),
        facts=tuple(_view_run(run)) if run else (),
        versions=tuple(_flatten(run.versions)) if run else (),
        digests=tuple((clean(name), clean(digest)) for name, digest in sources.digests.items()),
    )


def _view_continuing(news: Sequence[ClusterNews]) -> Iterator[ContinuingView]:
    for told in news:
        if told.kind == "continuing":
            yield ContinuingView(
                number=told.cluster,
                size=told.size,
                about=tuple(shorten(word, SUMMARY_LETTERS) for word in told.forms[:SUMMARY_WORDS]),
                ids=tuple(shorten(document.id, 80) for document in told.documents),
            )


def _view_metrics(evaluation: Evaluation) -> Iterator[tuple[str, str, str]]:
    for name, found in (
        ("mean of the significant clusters", evaluation.group),
        ("the same, against what earlier clusters left", evaluation.group_of_remaining),
        ("their documents taken together", evaluation.individual),
    ):
        yield name, f"{found.f1:.2f}", f"{found.auc:.2f}"


def _draw_orders(model: ModelFigures) -> Markup | None:
    least: dict[int, float] = {}
    for order in model.order_search:
        least[order.n_topics] = min(order.bic, least.get(order.n_topics, math.inf))
    if len(least) < 2:
        return None
    return charts.draw_orders(list(least), list(least.values()), model.n_topics)


def _view_run(run: RunRecord) -> Iterator[tuple[str, str]]:
    """Yield times, memory and workers; reused stages have the times of when they ran."""
    yield "started", mark_moment(run.started)
    for name, stage in run.stages.items():
        reused = ", reused" if stage.reused else ""
        yield clean(name), f"{stage.seconds_to_make:,.1f} s{reused}"
    yield "in all", f"{run.seconds:,.1f} s"
    yield "peak memory", f"{run.peak_memory_bytes / 2**20:,.0f} MiB"
    if run.cluster:
        workers = count(run.cluster.workers, "worker")
        yield "cluster", f"{workers}, {count(run.cluster.threads, 'thread')}"


def _flatten(values: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Flatten nested mappings to pairs such as `a.b`, `value`, without unset values."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{name}.")
        elif isinstance(value, list | tuple):
            if value:
                yield clean(name), clean(", ".join(map(str, value)))
        elif value is not None:
            yield clean(name), clean(_show(value))


def _show(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
