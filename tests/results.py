"""Results for tests, from the parts of their JSON that matter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from atd_dask.result_types import Alert, ClusterResult, Result, SweepLine
from atd_dask.run_types import ClusterFacts, RunRecord
from atd_dask.storage.stage_notes import PartSummary

AGREEMENT = {"recall": 0.5, "precision": 0.5, "f1": 0.5, "auc": 0.5}


def fill_cluster(told: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON of a cluster, with made-up values for what is missing."""
    cluster: dict[str, Any] = {
        "index": 1,
        "significant": True,
        "support": None,
        "search_p_value": None,
        "p_value": 0.02,
        "replicates": 0,
        "size": 0,
        "score": 0.0,
        "bic_gain": 0.0,
        "n_salient": 0,
        "n_salient_occurring": 0,
        "documents": [],
        "salient_words": [],
        "growth": [],
        "bootstrap_scores": [],
        "reference_support": None,
        **told,
    }
    documents = [{"share": 0.5, **fill_document(one)} for one in cluster["documents"]]
    if "evaluation" in told:
        cluster["evaluation"] = {"of_remaining": AGREEMENT, **told["evaluation"]}
    if "repeats" in told:
        cluster["repeats"] = {"p_values": [], "shown": 1, **told["repeats"]}
    return {**cluster, "documents": documents}


def fill_document(told: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": f"document {told['row']}", "labels": [], **told}


def make_cluster_result(**told: Any) -> ClusterResult:
    return ClusterResult.from_json(fill_cluster(told))


def make_result(**told: Any) -> Result:
    """A result; clusters are given as JSON or as objects."""
    result: dict[str, Any] = {
        "format": "atd-dask-result/1",
        "name": "a batch",
        "seed": 7,
        "corpus": {},
        **told,
    }
    result["clusters"] = [fill_cluster(_as_json(one)) for one in told.get("clusters", ())]
    model = {"n_topics": 2, "bic": 0.0, "topics_per_document": 1.0, "salient_words_per_topic": 1.0}
    model |= {"order_search": [], **told.get("null_model", {})}
    order = {"log_likelihood": -99.0, "iterations": 3, "topics_per_document": 1.0}
    order |= {"words_per_topic": 1.0}
    searched = [{**order, **one} for one in model["order_search"]]
    result["null_model"] = {**model, "order_search": searched}
    if "copies" in told:
        result["copies"] = [
            {
                "size": len(group["documents"]),
                "cluster": None,
                "words": [],
                **group,
                "documents": [fill_document(one) for one in group["documents"]],
            }
            for group in told["copies"]
        ]
    if "evaluation" in told:
        mean = {"f1": 0.5, "auc": 0.5}
        kinds = dict.fromkeys(("group", "group_of_remaining", "individual"), mean)
        result["evaluation"] = {**kinds, **told["evaluation"]}
    if "repeats" in told:
        result["repeats"] = {"majority": 3, "null_models": [], **told["repeats"]}
    if "sweep" in told:
        sweep = {"number": 4, "sweeps": [4], "generation": 1, "known_topics": 1, **told["sweep"]}
        news = [{"p_value": 0.01, **one} for one in sweep["clusters"]]
        result["sweep"] = {**sweep, "clusters": news}
    return Result.from_json(result)


def _as_json(cluster: ClusterResult | Mapping[str, Any]) -> Mapping[str, Any]:
    return cluster.to_json() if isinstance(cluster, ClusterResult) else cluster


def make_part(**told: Any) -> PartSummary:
    """A part of a corpus in which nobody looked for near-duplicates."""
    part = {"path": "", "digest": "", "documents": 0, "copies": None, "tokens": 0, "terms": 0}
    return PartSummary.from_json(
        {**part, "unseen_terms": 0, "unseen_tokens": 0, "skipped": {}, **told}
    )


def make_line(sweep: int, **told: Any) -> SweepLine:
    """The line of a sweep in the history."""
    line: dict[str, Any] = {
        "sweep": sweep,
        "started": f"2026-01-{sweep:02d}T03:00:00+00:00",
        "documents": 200,
        "skipped": 0,
        "tested": 800,
        "generation": 1,
        "trained": "the first one" if sweep == 1 else None,
        "unseen_share": 0.01 * sweep,
        "log_likelihood": -5.5 - 0.01 * sweep,
        "clusters": [],
        "candidates": [{"size": 4, "p_value": 0.3, "significant": False}],
        "seconds": 12.345,
        **told,
    }
    line["clusters"] = [{"p_value": 0.001, **cluster} for cluster in line["clusters"]]
    return SweepLine.from_json(line)


def make_alert(sweep: int, *news: Mapping[str, Any]) -> Alert:
    clusters = [{"p_value": 0.001, **one} for one in news]
    told = {"format": "atd-dask-alert/1", "name": "a batch", "sweep": sweep, "clusters": clusters}
    return Alert.from_json({**told, "result": "result.json", "report": "report.html"})


def make_run_record(**others: Any) -> RunRecord:
    """The record of a run on two workers."""
    usual: dict[str, Any] = {
        "format": "atd-dask-run/1",
        "name": "mine",
        "id": "0123",
        "status": "finished",
        "error": None,
        "command": ("atd-dask", "run", "mine.yaml"),
        "started": "2026-01-02T00:00:00",
        "ended": "2026-01-02T00:00:03",
        "seconds": 3.0,
        "stages": {},
        "peak_memory_bytes": 512 * 2**20,
        "peak_memory_bytes_of": {"client": 512 * 2**20, "workers": 0, "largest_worker": 0},
        "cluster": ClusterFacts("tcp://x:1", None, 2, 4, 0, 0),
        "versions": {"python": "3.11.7"},
        "configuration": {},
    }
    return RunRecord(**usual | others)
