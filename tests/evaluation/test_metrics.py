from __future__ import annotations

import json

import pytest

from atd_dask.evaluation.metrics import average, compare, compare_cluster, compare_documents
from tests.shared import shared

ANOMALOUS = {
    "reuters": ("coffee", "ship"),
    "newsgroups": ("rec.sport.hockey", "talk.politics.mideast"),
    "synthetic": ("10", "11"),
}

# Group and individual F1 and AUC of the authors' recorded clusters, recall of what was left.
RECORDED = {
    "reuters": (0.849, 0.787, 0.899, 0.883),
    "newsgroups": (0.859, 0.725, 0.858, 0.767),
    "synthetic": (0.968, 0.967, 0.968, 0.961),
}


def test_metrics_of_a_short_list():
    agreement = compare([True, False, True], 4)
    assert agreement.recall == 0.5
    assert agreement.precision == pytest.approx(2 / 3)
    assert agreement.f1 == pytest.approx(4 / 7)
    assert agreement.auc == pytest.approx(0.25 * (1 / 2 + 2 / 3) / 2)


def test_nothing_found_is_zero():
    assert compare([], 3) == compare([], 0)
    assert compare([False], 3).f1 == 0
    assert compare_cluster([0], [("a",)], ["b"], frozenset()) is None
    assert compare_cluster([0], [("a",)], [], frozenset()) is None
    assert average([]).f1 == 0


def test_the_majority_label_counts():
    labels = [("a",), ("b", "a"), ("b",), ("b",), ()]
    found = compare_cluster([1, 2, 4], labels, ["a", "b"], frozenset({3}))
    assert found.label == "b"
    assert found.whole.recall == pytest.approx(2 / 3)
    assert found.remaining.recall == 1


@pytest.mark.parametrize("corpus", RECORDED)
def test_the_recorded_clusters_have_the_recorded_figures(corpus):
    record = json.loads(shared(f"reference/{corpus}_clusters.json").read_text())
    labels = [
        tuple(line.split())
        for line in shared(f"corpora/{corpus}/test.labels").read_text().splitlines()
    ]
    clusters = [cluster["documents"] for cluster in record["clusters"]][:2]
    gone: frozenset[int] = frozenset()
    found = []
    for documents in clusters:
        found.append(compare_cluster(documents, labels, ANOMALOUS[corpus], gone))
        gone |= set(documents)
    group = average([agreement.remaining for agreement in found])
    individual = compare_documents(clusters, labels, ANOMALOUS[corpus])
    assert (group.f1, group.auc, individual.f1, individual.auc) == pytest.approx(
        RECORDED[corpus], abs=1e-3
    )
