from __future__ import annotations

import random
from collections import Counter

import pytest

from atd_dask.errors import InputError
from atd_dask.text.datasets import NAMES, REUTERS_TOPICS, assign_parts, locate, preparation
from atd_dask.text.options import Source

Labels = tuple[str, ...]


def assign(
    name: str, labels: list[Labels], anomalous: list[str], seed: int = 1
) -> list[str | None]:
    return assign_parts(name, [f"d{i}" for i in range(len(labels))], labels, anomalous, seed)


def parts_of(parts: list[str | None], labels: list[Labels], label: str) -> Counter[str | None]:
    return Counter(part for part, some in zip(parts, labels, strict=True) if label in some)


def test_a_given_path_is_taken_as_it_is() -> None:
    assert locate("reuters", "my/folder") == Source("reuters", "my/folder")


def test_the_text_rules_are_the_paper_s() -> None:
    reuters, newsgroups = map(preparation, NAMES)
    assert (reuters.min_distinct, reuters.max_distinct) == (34, 148)
    assert reuters.extra_stop_words == ()
    assert newsgroups.extra_stop_words == ("article", "edu", "organization", "writes")


def test_the_paper_s_split_of_reuters() -> None:
    labels: list[Labels] = [("earn",)] * 2000 + [("grain", "wheat")] * 789
    labels += [("ship", "crude")] * 224 + [("coffee",)] * 85 + [("coffee", "ship")] * 2
    parts = assign("reuters", labels, ["ship", "coffee"])
    assert Counter(parts) == {"train": 2091, "validation": 139, "test": 559 + 56 + 85, None: 170}
    assert parts_of(parts, labels, "ship") == {"test": 56, None: 170}
    assert parts_of(parts, labels, "coffee") == {"test": 85, None: 2}


def test_the_paper_s_split_of_newsgroups() -> None:
    labels: list[Labels] = [("sci.space",)] * 11_388 + [("misc.forsale",)] * 50
    labels += [("rec.sport.hockey",)] * 747 + [("talk.politics.mideast",)] * 90
    parts = assign("newsgroups", labels, ["rec.sport.hockey", "talk.politics.mideast"])
    assert parts_of(parts, labels, "sci.space") == {"train": 7973, "validation": 1138, "test": 2277}
    assert parts_of(parts, labels, "misc.forsale") == {None: 50}
    assert parts_of(parts, labels, "rec.sport.hockey") == {"test": 149, None: 598}
    assert parts_of(parts, labels, "talk.politics.mideast") == {"test": 18, None: 72}


def test_documents_that_the_paper_leaves_out() -> None:
    labels: list[Labels] = [
        ("acq",),
        ("earn", "acq"),
        ("earn", "soybean"),
        (),
        ("earn",),
        ("ship",),
    ]
    assert assign("reuters", labels, ["ship"]) == [None, None, None, None, "test", "test"]


def test_a_class_that_is_left_out_may_be_the_anomalous_one() -> None:
    labels: list[Labels] = [("acq",), ("acq", "earn"), ("acq", "livestock")]
    assert assign("reuters", labels, ["acq"]) == ["test", "test", None]
    assert assign("newsgroups", [("misc.forsale",)] * 10, ["misc.forsale"]).count("test") == 2


def test_the_draw_depends_on_the_seed_but_not_on_the_order() -> None:
    labels: list[Labels] = [("earn",)] * 300 + [("ship",)] * 200
    ids = [str(i) for i in range(500)]
    parts = dict(zip(ids, assign_parts("reuters", ids, labels, ["ship"], 1), strict=True))
    order = list(range(500))
    random.Random(0).shuffle(order)
    mixed = assign_parts(
        "reuters", [ids[i] for i in order], [labels[i] for i in order], ["ship"], 1
    )
    assert {ids[i]: part for i, part in zip(order, mixed, strict=True)} == parts
    other = dict(zip(ids, assign_parts("reuters", ids, labels, ["ship"], 2), strict=True))
    assert other != parts
    assert Counter(other.values()) == Counter(parts.values())


def test_without_anomalous_classes_all_documents_are_normal() -> None:
    assert Counter(assign("reuters", [("earn",)] * 100, [])) == {
        "train": 75,
        "validation": 5,
        "test": 20,
    }


def test_an_anomalous_label_must_occur() -> None:
    with pytest.raises(InputError, match="got 'coffe'; there are coffee, ship"):
        assign("reuters", [("ship",), ("coffee",)], ["coffe"])


def test_an_unknown_dataset_is_refused() -> None:
    for ask in (locate, preparation):
        with pytest.raises(InputError, match="must be one of reuters, newsgroups, got 'enron'"):
            ask("enron")


def test_there_are_thirty_topics() -> None:
    assert len(REUTERS_TOPICS) == 30
    assert not REUTERS_TOPICS & {"acq", "livestock", "soybean"}
