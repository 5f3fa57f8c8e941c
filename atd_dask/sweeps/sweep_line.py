"""The line of a sweep in the history."""

from __future__ import annotations

from atd_dask.result_types import LineCandidate, LineCluster, SweepLine
from atd_dask.sweeps.news import SweepFindings
from atd_dask.sweeps.plan import SweepPlan
from atd_dask.sweeps.sweep_detection import LINE_WORDS


def make_line(
    findings: SweepFindings, plan: SweepPlan, generation: int, seconds: float
) -> SweepLine:
    """Return the line of a sweep."""
    drift, new, series = findings.drift, plan.new, findings.state.series
    return SweepLine(
        sweep=plan.sweep,
        started=plan.started,
        documents=new.documents,
        skipped=sum(skipped.documents for skipped in new.skipped.values()),
        tested=findings.n_tested,
        generation=generation,
        trained=plan.reason,
        unseen_share=drift.unseen_tokens / max(drift.tokens + drift.unseen_tokens, 1),
        log_likelihood=drift.log_likelihood,
        clusters=tuple(
            LineCluster(
                cluster=entry.cluster,
                kind=entry.kind,
                size=entry.size,
                p_value=entry.p_value,
                added=len(entry.documents),
                words=entry.words[:LINE_WORDS],
                written=entry.forms[:LINE_WORDS],
            )
            for entry in findings.news
        ),
        candidates=tuple(
            LineCandidate(
                size=cluster.size,
                support=cluster.support,
                search_p_value=cluster.search_p_value,
                p_value=cluster.p_value,
                significant=cluster.significant,
                drift=True if cluster.kind == "drift" else None,
            )
            for cluster in findings.result.clusters
        ),
        level=findings.level,
        chance_alarms=None if series is None else series.spent,
        drifts=findings.drifts,
        seconds=seconds,
    )
