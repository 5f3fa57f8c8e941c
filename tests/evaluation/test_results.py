"""What a result says about candidates, and in which order."""

from __future__ import annotations

import csv
from dataclasses import replace

import numpy as np
import pytest

from atd_dask.evaluation.results import (
    add_written,
    describe_clusters,
    describe_searches,
    order_candidates,
    write_csv,
)
from atd_dask.kernels.alternative import Alternative
from atd_dask.kernels.blocks import MemoryCorpus
from atd_dask.kernels.calibration import HeldOutSearch, estimate_p_value
from atd_dask.kernels.cluster_growth import Growth, Step
from atd_dask.kernels.detection_rules import FoundCluster
from atd_dask.kernels.model import Block
from atd_dask.result_types import BatchDocument, ClusterRepeats, NormalDocument
from tests.results import make_result

CHANCE = tuple(map(HeldOutSearch, (1.0, 5.0, 9.0)))
SHARED = np.array([0.5, 0.25, 0.25])


def make_candidate(support, significant, documents=(0, 2), searches=CHANCE, **growth):
    topic = Alternative(
        specific=np.array([True, False, True]),
        probabilities=np.array([0.1, 0.25, 0.65]),
        shares=np.full(len(documents), 0.5),
        log_likelihoods=np.zeros(len(documents)),
        proportions=np.full((len(documents), 2), 0.5),
        bic=0.0,
        expected=np.zeros(3),
    )
    grown = Growth(documents[0], ended=True, documents=documents, support=support, **growth)
    return FoundCluster(grown, topic, 3.0, np.zeros(4), 0.2, significant, 0, searches)


def describe(*candidates):
    block = Block(np.array([0, 1, 2, 3]), np.array([0, 1, 2], np.int32), np.ones(3, np.int32))
    words, ids = ["tea", "oil", "gold"], ["a", "b", "c"]
    return describe_clusters(
        candidates, MemoryCorpus(block, 3), SHARED, words, ids, [("x",), (), ()]
    )


def test_failed_candidates_follow_the_best_supported_first():
    found = [
        make_candidate(3.0, False),
        make_candidate(20.0, True),
        make_candidate(-1.0, False),
        make_candidate(30.0, True),
        make_candidate(4.0, False),
    ]
    ordered = order_candidates(found)
    assert [cluster.support for cluster in ordered] == [20.0, 30.0, 4.0, 3.0, -1.0]
    assert [entry.index for entry in describe(*ordered)] == [1, 2, 3, 4, 5]


def test_candidates_of_equal_support_stay_in_their_order():
    found = [make_candidate(0.0, False, documents=(row, 2)) for row in (1, 0)]
    assert [cluster.documents[0] for cluster in order_candidates(found)] == [1, 0]


def test_support_and_what_it_is_compared_with():
    (entry,) = describe(make_candidate(5.0, False))
    chance = estimate_p_value(5.0, np.array([1.0, 5.0, 9.0]))
    assert (entry.support, entry.search_p_value, entry.p_value) == (5.0, chance, 0.2)
    assert entry.reference_support == (1.0, 5.0, 9.0)
    assert entry.growth == ()


@pytest.mark.parametrize(
    ("steps", "support"), [((), 5.0), ((Step(2, 0.5, 1.0, 2.0, False),), None)]
)
def test_without_searches_what_was_grown_has_no_support(steps, support):
    (entry,) = describe(make_candidate(5.0, True, searches=None, steps=steps))
    assert entry.support == support
    assert entry.search_p_value is None
    assert entry.reference_support is None


def test_what_held_out_searches_found():
    searches = [HeldOutSearch(2.5, 7, (4, 1), (2, 0)), HeldOutSearch(0.0), HeldOutSearch(1.0, None)]
    told = describe_searches(
        searches,
        ["tea", "oil", "gold"],
        lambda row: NormalDocument(part="train", row=10 * row, id="x"),
    )
    documents = [{"part": "train", "row": row, "id": "x"} for row in (40, 10)]
    assert [search.to_json() for search in told] == [
        {"support": 2.5, "size": 7, "words": ["gold", "tea"], "documents": documents},
        {"support": 0.0, "size": 0, "words": [], "documents": []},
        {"support": 1.0, "size": None, "words": [], "documents": []},
    ]


def test_the_table_of_documents():
    clusters = describe(make_candidate(9.5, True))
    stems = [word.word for word in clusters[0].raised_words]
    clusters = add_written(make_result(clusters=clusters), {stems[0]: "spelt, out"}).clusters
    first = clusters[0].documents[0].row
    lines = write_csv(clusters, {first: 'a "passage"'}).decode().splitlines()
    rows = list(csv.DictReader(lines))
    assert [row["id"] for row in rows] == ["a", "c"]
    assert [row["passage"] for row in rows] == ['a "passage"', ""]
    assert [row["words"] for row in rows] == [" ".join(["spelt, out", *stems[1:]])] * 2
    for row in rows:
        assert (row["cluster"], row["significant"]) == ("1", "True")
        assert (row["support"], row["p_value"]) == ("9.5", "0.2")
        assert float(row["search_p_value"]) == estimate_p_value(9.5, np.array([1.0, 5.0, 9.0]))


def test_the_table_tells_of_repeats_if_there_were_any():
    result = add_written(make_result(clusters=describe(make_candidate(9.5, True))), {})
    first, *others = result.clusters[0].documents
    copied = replace(first, copies=(BatchDocument(row=1, id="b", labels=()),))
    cluster = replace(result.clusters[0], documents=(copied, *others))
    plain = write_csv([cluster], {}).decode().splitlines()
    repeats = ClusterRepeats(found=4, of=5, p_value=0.002, p_values=(), shown=1)
    repeated = write_csv([replace(cluster, repeats=repeats)], {}).decode().splitlines()
    assert repeated == [
        f"{plain[0]},repeats,repeats_p_value",
        *(f"{line},4,0.002" for line in plain[1:]),
    ]
    assert len(repeated) == 4
