"""Describes the result of a detection, and writes it as JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import numpy as np

from atd_dask.evaluation.metrics import (
    Labels,
    average,
    compare_cluster,
    compare_documents,
)
from atd_dask.kernels.word_ranking import rank_words
from atd_dask.result_types import (
    Agreement,
    ClusterEvaluation,
    ClusterResult,
    Evaluation,
    GrowthFigures,
    MeanAgreement,
    MemberDocument,
    NormalDocument,
    ReferenceSearch,
    Result,
    SalientWord,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from atd_dask.kernels.blocks import Corpus
    from atd_dask.kernels.calibration import HeldOutSearch
    from atd_dask.kernels.detection_rules import FoundCluster
    from atd_dask.kernels.model import Floats

FORMAT = "atd-dask-result/1"
SHOWN_WORDS = 8  # of a cluster, in a row of clusters.csv


def order_candidates(found: Sequence[FoundCluster]) -> list[FoundCluster]:
    """Return candidates in the order of a result: clusters in the order in which they were found,
    then those that failed, best supported first."""
    clusters = [cluster for cluster in found if cluster.significant]
    failed = [cluster for cluster in found if not cluster.significant]
    return clusters + sorted(failed, key=lambda cluster: -cluster.support)


def describe_clusters(
    clusters: Sequence[FoundCluster],
    test: Corpus,
    shared: Floats,
    vocabulary: Sequence[str],
    ids: Sequence[str],
    labels: Labels,
    n_known: int | None = None,
) -> tuple[ClusterResult, ...]:
    """Describe the clusters of a result. Words from number `n_known` on are not in training."""
    described = []
    for index, cluster in enumerate(clusters, 1):
        occurring = np.zeros(len(shared), dtype=np.bool_)
        for row in cluster.documents:
            occurring[test.rows(row, row + 1).terms] = True
        described.append(
            _describe_cluster(cluster, index, occurring, shared, vocabulary, ids, labels, n_known)
        )
    return tuple(described)


def _describe_cluster(
    cluster: FoundCluster,
    index: int,
    occurring: NDArray[np.bool_],
    shared: Floats,
    vocabulary: Sequence[str],
    ids: Sequence[str],
    labels: Labels,
    n_known: int | None,
) -> ClusterResult:
    """Describe a cluster; `occurring` marks the words that its documents have."""
    topic = cluster.topic
    words = np.flatnonzero(topic.specific)
    order = rank_words(words, topic.probabilities, shared)
    others = cluster.calibration_support
    return ClusterResult(
        index=index,
        significant=cluster.significant,
        support=_find_support(cluster),
        search_p_value=cluster.search_p_value,
        p_value=cluster.p_value,
        replicates=len(cluster.scores),
        size=len(cluster.documents),
        score=cluster.score,
        bic_gain=cluster.growth.gain,
        n_salient=len(words),
        n_salient_occurring=int(np.count_nonzero(occurring[words])),
        documents=tuple(
            MemberDocument(
                row=row,
                id=ids[row],
                share=float(topic.shares[place]),
                labels=tuple(labels[row]),
            )
            for place, row in enumerate(cluster.documents)
        ),
        salient_words=tuple(
            SalientWord(
                word=vocabulary[word],
                probability=float(topic.probabilities[word]),
                shared_probability=float(shared[word]),
                occurring=bool(occurring[word]),
                new=n_known is not None and word >= n_known,
            )
            for word in order.tolist()
        ),
        growth=tuple(
            GrowthFigures(
                row=step.document,
                share=step.share,
                score=step.score,
                bic_gain=step.gain,
                failed=step.failed,
            )
            for step in cluster.growth.steps
        ),
        bootstrap_scores=tuple(cluster.scores.tolist()),
        reference_support=None if others is None else tuple(others.tolist()),
    )


def describe_searches(
    searches: Sequence[HeldOutSearch],
    vocabulary: Sequence[str],
    name_row: Callable[[int], NormalDocument],
) -> tuple[ReferenceSearch, ...]:
    """Describe what each search in held-out documents found; `name_row` identifies the normal
    document of a row."""
    return tuple(
        ReferenceSearch(
            support=search.support,
            size=search.size,
            words=tuple(vocabulary[word] for word in search.words),
            documents=tuple(name_row(row) for row in search.documents),
        )
        for search in searches
    )


def _find_support(cluster: FoundCluster) -> float | None:
    """Return the support; a cluster grown step by step has one only if there were searches."""
    if cluster.calibration_support is None and cluster.growth.steps:
        return None
    return float(cluster.support)


def evaluate_result(result: Result, labels: Labels, anomalous: Sequence[str]) -> Result:
    """Return the result with its agreement with the anomalous labels."""
    found = [(cluster.rows_with_copies, cluster.significant) for cluster in result.clusters]
    evaluations, summary = evaluate_clusters(found, labels, anomalous)
    clusters = tuple(
        cluster if evaluation is None else replace(cluster, evaluation=evaluation)
        for cluster, evaluation in zip(result.clusters, evaluations, strict=True)
    )
    return replace(result, clusters=clusters, evaluation=summary)


def evaluate_clusters(
    clusters: Sequence[tuple[Sequence[int], bool]], labels: Labels, anomalous: Sequence[str]
) -> tuple[list[ClusterEvaluation | None], Evaluation]:
    """Compare clusters, each given by its rows and whether it is significant, with labels.

    Return the evaluation of each, or None if it has no anomalous document, and the summary over the
    significant ones, for the whole batch and for what was left of it.
    """
    gone: frozenset[int] = frozenset()
    evaluations: list[ClusterEvaluation | None] = []
    whole, remaining = [], []
    for rows, significant in clusters:
        agreement = compare_cluster(rows, labels, anomalous, gone)
        evaluations.append(
            None
            if agreement is None
            else ClusterEvaluation(
                label=agreement.label,
                **asdict(agreement.whole),
                of_remaining=agreement.remaining,
            )
        )
        if significant:
            nothing = average([])
            whole.append(agreement.whole if agreement else nothing)
            remaining.append(agreement.remaining if agreement else nothing)
            gone |= set(rows)
    found = [rows for rows, significant in clusters if significant]
    summary = Evaluation(
        group=_summarise(average(whole)),
        group_of_remaining=_summarise(average(remaining)),
        individual=_summarise(compare_documents(found, labels, anomalous)),
    )
    return evaluations, summary


def _summarise(agreement: Agreement) -> MeanAgreement:
    return MeanAgreement(f1=agreement.f1, auc=agreement.auc)


def add_written(result: Result, forms: Mapping[str, str]) -> Result:
    """Return the result with the written form of each word, such as a stem, if it has one."""
    clusters = tuple(
        replace(
            cluster,
            salient_words=tuple(
                replace(word, written=forms.get(word.word, word.word))
                for word in cluster.salient_words
            ),
        )
        for cluster in result.clusters
    )
    copies = result.copies and tuple(
        replace(group, written=tuple(forms.get(word, word) for word in group.words))
        for group in result.copies
    )
    return replace(result, clusters=clusters, copies=copies)


def write_json(result: Result) -> bytes:
    """Encode a result as JSON; the same result gives the same bytes."""
    told = result.to_json()
    return json.dumps(told, indent=1, allow_nan=False, ensure_ascii=False).encode() + b"\n"


def write_csv(clusters: Sequence[ClusterResult], passages: Mapping[int, str]) -> bytes:
    """Encode as CSV a row for each document of a cluster, followed by its near-duplicates.

    `passages` has a piece of text for the rows whose text is kept. Columns for repeats are present
    if detection was repeated.
    """
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    is_repeated = any(cluster.repeats for cluster in clusters)
    table.writerow(
        [
            *("cluster", "significant", "p_value", "row", "id", "share", "labels", "copy_of"),
            *("support", "search_p_value", "words", "passage"),
            *(("repeats", "repeats_p_value") if is_repeated else ()),
        ]
    )
    for cluster in clusters:
        judged = [cluster.index, cluster.significant, cluster.p_value]
        about = " ".join(word.form for word in cluster.raised_words[:SHOWN_WORDS])
        beside = [cluster.support, cluster.search_p_value, about]
        repeats = [cluster.repeats.found, cluster.repeats.p_value] if cluster.repeats else []
        for document in cluster.documents:
            row, labels = document.row, " ".join(document.labels)
            told = [*judged, row, document.id, document.share, labels, "", *beside]
            table.writerow([*told, passages.get(row, ""), *repeats])
            for copy in document.all_copies:
                labels = " ".join(copy.labels)
                told = [*judged, copy.row, copy.id, "", labels, row, *beside, ""]
                table.writerow([*told, *repeats])
    return text.getvalue().encode()
