"""The page about all sweeps of a repository: what they found, and how far the documents drift."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from markupsafe import Markup

from atd_dask.report.numbers import count, mark_moment, show_decimal, show_p_value, spell
from atd_dask.report.page import fill, read
from atd_dask.report.timeline import draw_course, draw_documents, draw_p_values, draw_trend
from atd_dask.result_types import LineDrift, SweepLine
from atd_dask.storage.run_layout import RunLayout
from atd_dask.wording import clean


@dataclass(frozen=True)
class ClusterRow:
    """A cluster, over the sweeps in which it had new documents."""

    number: int
    first: int
    last: int
    size: int
    p_value: str
    words: Sequence[str]
    report: str


@dataclass(frozen=True)
class DriftRow:
    """Words that a normal topic takes up, as the last sweep that reported them has it."""

    words: Sequence[str]
    last: int
    report: str
    trend: str
    chart: Markup


@dataclass(frozen=True)
class SweepRow:
    """A sweep."""

    number: int
    report: str
    started: Markup
    stamp: str  # to sort by
    documents: int
    tested: int
    found: Sequence[str]
    alarm: bool
    unseen: str
    likelihood: str
    model: str
    seconds: str


@dataclass(frozen=True)
class HistoryView:
    """Everything that the page shows. Numbers and text are formatted by the template."""

    name: str
    verdict: str
    promise: str
    charts: Sequence[Markup]
    clusters: Sequence[ClusterRow]
    drifts: Sequence[DriftRow]
    sweeps: Sequence[SweepRow]  # the latest first


def render_history(name: str, lines: Sequence[SweepLine], promise: str = "") -> bytes:
    """Render the page; `lines` are those of the history, at least one, and `promise` says how many
    false alarms are accepted. The same arguments give the same bytes."""
    style = read("page.css") + read("history.css")
    return fill("history.html.j2", style, read("page.js"), view=make_view(name, lines, promise))


def make_view(name: str, lines: Sequence[SweepLine], promise: str = "") -> HistoryView:
    sweeps = [line.sweep for line in lines]
    trained = [line.sweep for line in lines if line.trained and line.sweep > 1]
    candidates = [
        (
            line.sweep,
            cluster.deciding_p_value,
            cluster.size,
            cluster.significant and not cluster.drift,
        )
        for line in lines
        for cluster in line.candidates
    ]
    shares = [line.unseen_share for line in lines]
    likelihoods = [line.log_likelihood for line in lines]
    clusters = _list_clusters(lines)
    return HistoryView(
        name=clean(name),
        verdict=_conclude(lines, len(clusters)),
        promise=_say_promise(lines, promise),
        charts=[
            draw_documents(
                sweeps,
                [line.documents for line in lines],
                [bool(line.clusters) for line in lines],
            ),
            draw_p_values(sweeps, candidates, [line.level for line in lines]),
            draw_course(sweeps, shares, trained, "share of words outside the vocabulary", "{:.1%}"),
            draw_course(
                sweeps, likelihoods, trained, "log-likelihood of a word, null model", "{:.3g}"
            ),
        ],
        clusters=clusters,
        drifts=_list_drifts(lines),
        sweeps=[_describe_sweep(line) for line in reversed(lines)],
    )


def _conclude(lines: Sequence[SweepLine], n_clusters: int) -> str:
    documents = count(sum(line.documents for line in lines), "document")
    swept = f"{count(len(lines), 'sweep')} of {documents}"
    if not n_clusters:
        return f"{swept} found no cluster."
    found = f"{swept} found {spell(n_clusters)} cluster{'s' if n_clusters > 1 else ''}"
    last = max(line.sweep for line in lines if line.clusters)
    return f"{found}; the most recent update was in sweep {last}."


def _say_promise(lines: Sequence[SweepLine], promise: str) -> str:
    """Say how many false alarms are accepted, and how many chance may have raised since."""
    spent = lines[-1].chance_alarms
    if not promise or spent is None:
        return ""
    alarms = sum(cluster.kind == "new" for line in lines for cluster in line.clusters)
    return (
        f"Accepted false alarms: {promise}. On average, chance alone accounts for at most"
        f" {show_decimal(spent, 2)} of {count(alarms, 'alarm')}."
    )


def _list_drifts(lines: Sequence[SweepLine]) -> list[DriftRow]:
    """Return drift by its words, latest first; drifts that share a word are one."""
    rows: dict[tuple[str, ...], DriftRow] = {}
    for line in lines:
        for drift in line.drifts:
            for words in [words for words in rows if not set(words).isdisjoint(drift.words)]:
                del rows[words]
            last = len(drift.counts) - 1
            start = next((n for n, number in enumerate(drift.counts) if number), last)
            rows[drift.words] = DriftRow(
                words=tuple(map(clean, drift.written)),
                last=line.sweep,
                report=_link(line.sweep),
                trend=(
                    f"from {drift.counts[start]:,} of {count(drift.documents[start], 'document')}"
                    f" {_name_time(drift, start)} to {drift.counts[last]:,} of"
                    f" {drift.documents[last]:,} {_name_time(drift, last)}"
                ),
                chart=draw_trend(drift.counts, drift.documents),
            )
    return list(reversed(rows.values()))


def _name_time(drift: LineDrift, index: int) -> str:
    if not drift.by_day:
        return f"in sweep {drift.first + index}"
    return f"on {date(1970, 1, 1) + timedelta(days=drift.first + index)}"


def _link(sweep: int) -> str:
    """Return a link to the page of a sweep, from the page next to the sweeps."""
    layout = RunLayout(".")
    return layout.relative(layout.sweep(sweep).report)


def _list_clusters(lines: Sequence[SweepLine]) -> list[ClusterRow]:
    """Return every cluster, the one with the latest news first."""
    rows: dict[int, ClusterRow] = {}
    for line in lines:
        for cluster in line.clusters:
            before = rows.pop(cluster.cluster, None)
            rows[cluster.cluster] = ClusterRow(
                number=cluster.cluster,
                first=before.first if before else line.sweep,
                last=line.sweep,
                size=cluster.size,
                p_value=show_p_value(cluster.p_value),
                words=tuple(map(clean, cluster.forms)),
                report=before.report if before else _link(line.sweep),
            )
    return list(reversed(rows.values()))


def _describe_sweep(line: SweepLine) -> SweepRow:
    likelihood = line.log_likelihood
    return SweepRow(
        number=line.sweep,
        report=_link(line.sweep),
        started=mark_moment(line.started),
        stamp=clean(line.started),
        documents=line.documents,
        tested=line.tested,
        found=[
            f"cluster {c.cluster}, {'new' if c.kind == 'new' else 'continues'}:"
            f" {count(c.added, 'document')}"
            for c in line.clusters
        ]
        + [f"drift: {count(drift.size, 'document')}" for drift in line.drifts],
        alarm=bool(line.clusters),
        unseen=f"{line.unseen_share:.1%}",
        likelihood="–" if likelihood is None else show_decimal(likelihood, 3),
        model=clean(f"trained: {line.trained}") if line.trained else "",
        seconds=show_decimal(line.seconds),
    )
