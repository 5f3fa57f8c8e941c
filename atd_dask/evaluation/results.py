"""The result of a detection as people and programs read it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from atd_dask.evaluation.copy_groups import list_rows
from atd_dask.evaluation.metrics import (
    Labels,
    average,
    compare_cluster,
    compare_documents,
)
from atd_dask.kernels.word_ranking import rank_words

if TYPE_CHECKING:
    from atd_dask.kernels.blocks import Corpus
    from atd_dask.kernels.calibration import HeldOutSearch

FORMAT = "atd-dask-result/1"
SHOWN_WORDS = 8  # of a cluster, in a row of clusters.csv


def order_candidates(found: Sequence[Any]) -> list[Any]:
    """Candidates as a result lists them: the clusters in the order in which they were found, then
    those that failed, the best supported first."""
    clusters = [cluster for cluster in found if cluster.significant]
    failed = [cluster for cluster in found if not cluster.significant]
    return clusters + sorted(failed, key=lambda cluster: -cluster.support)


def describe_clusters(
    clusters: Sequence[Any],
    test: Corpus,
    shared: np.ndarray[Any, np.dtype[np.float64]],
    vocabulary: Sequence[str],
    ids: Sequence[str],
    labels: Labels,
    n_known: int | None = None,
) -> list[dict[str, Any]]:
    """The entries of `clusters` in result.json. Words from `n_known` on are new: training lacks
    them."""
    described = []
    for index, cluster in enumerate(clusters, 1):
        occurring = np.zeros(len(shared), dtype=np.bool_)
        for row in cluster.documents:
            occurring[test.rows(row, row + 1).terms] = True
        described.append(
            _describe_cluster(cluster, index, occurring, shared, vocabulary, ids, labels, n_known)
        )
    return described


def _describe_cluster(
    cluster: Any,
    index: int,
    occurring: np.ndarray[Any, np.dtype[np.bool_]],
    shared: np.ndarray[Any, np.dtype[np.float64]],
    vocabulary: Sequence[str],
    ids: Sequence[str],
    labels: Labels,
    n_known: int | None,
) -> dict[str, Any]:
    """`occurring` says which words the documents have."""
    topic = cluster.topic
    words = np.flatnonzero(topic.specific)
    order = rank_words(words, topic.probabilities, shared)
    return {
        "index": index,
        "significant": cluster.significant,
        "support": _find_support(cluster),
        "search_p_value": cluster.search_p_value,
        "p_value": cluster.p_value,
        "replicates": len(cluster.scores),
        "size": len(cluster.documents),
        "score": cluster.score,
        "bic_gain": cluster.growth.gain,
        "n_salient": len(words),
        "n_salient_occurring": int(np.count_nonzero(occurring[words])),
        "documents": [
            {
                "row": row,
                "id": ids[row],
                "share": float(topic.shares[place]),
                "labels": list(labels[row]),
            }
            for place, row in enumerate(cluster.documents)
        ],
        "salient_words": [
            {
                "word": vocabulary[word],
                "probability": float(topic.probabilities[word]),
                "shared_probability": float(shared[word]),
                "occurring": bool(occurring[word]),
                "new": n_known is not None and word >= n_known,
            }
            for word in order.tolist()
        ],
        "growth": [
            {
                "row": step.document,
                "share": step.share,
                "score": step.score,
                "bic_gain": step.gain,
                "failed": step.failed,
            }
            for step in cluster.growth.steps
        ],
        "bootstrap_scores": cluster.scores.tolist(),
        "reference_support": None
        if cluster.calibration_support is None
        else cluster.calibration_support.tolist(),
    }


def describe_searches(
    searches: Sequence[HeldOutSearch],
    vocabulary: Sequence[str],
    name_row: Callable[[int], dict[str, Any]],
) -> list[dict[str, Any]]:
    """The entries of `references` in result.json: what each search in held-out documents found.
    `name_row` tells which document a row of the normal ones is."""
    return [
        {
            "support": search.support,
            "size": search.size,
            "words": [vocabulary[word] for word in search.words],
            "documents": [name_row(row) for row in search.documents],
        }
        for search in searches
    ]


def _find_support(cluster: Any) -> float | None:
    """A cluster that was grown step by step has its support found for the searches alone."""
    if cluster.calibration_support is None and cluster.growth.steps:
        return None
    return float(cluster.support)


def evaluate_clusters(
    clusters: Sequence[dict[str, Any]], labels: Labels, anomalous: Sequence[str]
) -> dict[str, Any]:
    """Adds `evaluation` to every cluster that has an anomalous document; gives the summary over
    the significant ones, against the whole batch and against what was left of it."""
    gone: frozenset[int] = frozenset()
    whole, remaining = [], []
    found = [cluster for cluster in clusters if cluster["significant"]]
    for cluster in clusters:
        rows = list_rows(cluster)
        agreement = compare_cluster(rows, labels, anomalous, gone)
        if agreement is not None:
            cluster["evaluation"] = {
                "label": agreement.label,
                **asdict(agreement.whole),
                "of_remaining": asdict(agreement.remaining),
            }
        if cluster["significant"]:
            nothing = average([])
            whole.append(agreement.whole if agreement else nothing)
            remaining.append(agreement.remaining if agreement else nothing)
            gone |= set(rows)
    individual = compare_documents(list(map(list_rows, found)), labels, anomalous)
    group, group_remaining = average(whole), average(remaining)
    return {
        "group": {"f1": group.f1, "auc": group.auc},
        "group_of_remaining": {"f1": group_remaining.f1, "auc": group_remaining.auc},
        "individual": {"f1": individual.f1, "auc": individual.auc},
    }


def is_raised(word: Mapping[str, Any]) -> bool:
    """Whether a salient word is more likely in the cluster than elsewhere, and occurs."""
    return bool(word["occurring"] and word["probability"] > word["shared_probability"])


def add_written(result: dict[str, Any], forms: Mapping[str, str]) -> None:
    """Puts beside each word of a result, such as a stem, how the documents write it; a word without
    a form stands for itself."""
    for cluster in result["clusters"]:
        cluster["salient_words"] = [
            {"word": word["word"], "written": forms.get(word["word"], word["word"]), **word}
            for word in cluster["salient_words"]
        ]
    for group in result.get("copies", ()):
        group["written"] = [forms.get(word, word) for word in group["words"]]


def write_json(result: dict[str, Any]) -> bytes:
    """The same result gives the same bytes."""
    return json.dumps(result, indent=1, allow_nan=False, ensure_ascii=False).encode() + b"\n"


def write_csv(clusters: Sequence[dict[str, Any]], passages: Mapping[int, str]) -> bytes:
    """A row for each document of a cluster, and after it one for each of its copies; `passages` has
    a piece of the text for rows whose text is kept. The columns of repeats are there if a detection
    was repeated."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    figures = ["support", "search_p_value"]
    is_repeated = any("repeats" in cluster for cluster in clusters)
    table.writerow(
        [
            *("cluster", "significant", "p_value", "row", "id", "share", "labels", "copy_of"),
            *(*figures, "words", "passage"),
            *(("repeats", "repeats_p_value") if is_repeated else ()),
        ]
    )
    for cluster in clusters:
        judged = [cluster[name] for name in ("index", "significant", "p_value")]
        about = [word["written"] for word in cluster["salient_words"] if is_raised(word)]
        beside = [*(cluster[name] for name in figures), " ".join(about[:SHOWN_WORDS])]
        repeats = [cluster["repeats"][name] for name in ("found", "p_value")] if is_repeated else []
        for document in cluster["documents"]:
            row, labels = document["row"], " ".join(document["labels"])
            told = [*judged, row, document["id"], document["share"], labels, "", *beside]
            table.writerow([*told, passages.get(row, ""), *repeats])
            for copy in document.get("copies", ()):
                labels = " ".join(copy["labels"])
                told = [*judged, copy["row"], copy["id"], "", labels, row, *beside, ""]
                table.writerow([*told, *repeats])
    return text.getvalue().encode()
