"""Results as JSON, and back."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from atd_dask.errors import InputError
from atd_dask.evaluation.results import write_json
from atd_dask.result_types import ClusterResult, Result
from tests.report.pages import make_cluster, make_news, make_search
from tests.results import fill_cluster, make_result

COPY = {"row": 7, "id": "g", "labels": ["x"], "sweep": 4}
METRICS = {"recall": 0.5, "precision": 1.0, "f1": 0.75, "auc": 0.25}


def make_full() -> Result:
    """A result with every field."""
    cluster: dict[str, Any] = make_cluster(
        n_copies=1,
        evaluation={"label": "coffee", **METRICS},
        repeats={"found": 2, "of": 3, "p_value": 0.01, "p_values": [0.1, None, 0.2]},
        cluster=3,
        kind="new",
    )
    cluster["documents"][0] |= {"copies": [COPY], "sweep": 4}
    cluster["salient_words"][0] |= {"written": "coffee", "new": True}
    return make_result(
        corpus={"test": {"documents": 9, "tokens": 99, "terms": 5, "copies": 1}},
        null_model={"order_search": [{"n_topics": 2, "bic": 1.5}]},
        clusters=[cluster, make_cluster(2, significant=False)],
        references=[make_search(1.5), make_search(0.0, None)],
        copies=[{"words": ["tea"], "written": ["Tea"], "documents": [COPY]}],
        evaluation={},
        repeats={"n": 3},
        sweep={"clusters": [make_news("continuing", ["gulf"], ["b"])]},
    )


@pytest.mark.parametrize("result", [make_result(), make_full()], ids=["least", "full"])
def test_a_result_is_read_as_it_was_written(result: Result) -> None:
    content = write_json(result)
    again = Result.from_json(json.loads(content))
    assert again == result
    assert write_json(again) == content


def test_what_there_is_nothing_to_say_of_is_left_out() -> None:
    told = make_result(clusters=[make_cluster(support=None)]).to_json()
    assert list(told) == ["format", "name", "seed", "corpus", "null_model", "clusters"]
    (cluster,) = told["clusters"]
    assert cluster["support"] is None
    assert not {"n_copies", "evaluation", "repeats", "cluster", "kind"} & cluster.keys()


@pytest.mark.parametrize("wrong", [{"clusters": 3}, {"corpus": []}, {"null_model": "none"}])
def test_the_wrong_shape_is_a_sentence(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="must have"):
        Result.from_json({**make_result().to_json(), **wrong})


def test_what_is_missing_is_named() -> None:
    told = fill_cluster({})
    del told["size"]
    with pytest.raises(InputError, match="ClusterResult must have size"):
        ClusterResult.from_json(told)


def test_rows_are_followed_by_those_of_copies() -> None:
    cluster = make_full().clusters[0]
    assert cluster.rows == (100, 101, 102)
    assert cluster.rows_with_copies == [100, 7, 101, 102]


def test_a_result_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError, match="cannot assign to field"):
        make_result().seed = 1  # type: ignore[misc]
