from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from atd_dask.errors import DamagedStoreError, InputError
from atd_dask.kernels.training import OrderRecord
from atd_dask.kernels.word_switches import make_table
from atd_dask.storage.inspection import describe
from atd_dask.storage.models import NullModel, read_digest, read_model, write_model
from atd_dask.storage.verification import verify
from tests.storage.corpora import write_corpus
from tests.storage.test_checkpoints import check_same

WORDS = ("oil", "barrel", "bank", "rate", "é ü", "the", "unused")
SETTINGS = {"seed": 1, "null_model": {"topics": {"max": 3, "min": 2, "step": 1}}}


def make_model(n_topics: int = 2) -> NullModel:
    shared = np.array([0.1, 0.1, 0.15, 0.15, 0.2, 0.3, 0.0])
    specific = np.zeros((n_topics, 7), bool)
    probabilities = np.tile(shared, (n_topics, 1))
    specific[0, [0, 1, 2, 3]] = True
    probabilities[0, [0, 1, 2, 3]] = [0.2, 0.29, 0.005, 0.005]
    if n_topics > 1:
        specific[1, [2, 3]] = True
        probabilities[1, [2, 3]] = [0.2, 0.1]
    records = (
        (OrderRecord(3, 120.5, -100.0, 4, 1.5, 2.0), OrderRecord(2, 110.25, -99.5, 3, 1.25, 3.0)),
        (OrderRecord(2, 111.0, -99.0, 5, 1.0, 2.5),),
    )
    table = make_table(shared, specific, probabilities)
    return NullModel(table, WORDS, records, SETTINGS, "digest of the corpus")


@pytest.mark.parametrize("scheme", ["", "memory://"])
def test_a_model_is_read_as_it_was_written(tmp_path: Path, scheme: str) -> None:
    url = f"{scheme}{tmp_path}/m"
    model = make_model()
    digest = write_model(url, model)
    kept = read_model(url)
    check_same(kept, model)
    assert read_digest(url) == digest
    assert verify(url) == []
    assert write_model(f"{url}-again", kept) == digest


def test_the_digest_changes_with_everything_that_a_model_says(tmp_path: Path) -> None:
    model = make_model()
    probabilities = model.table.probabilities.copy()
    probabilities[0] = np.nextafter(probabilities[0], 1)
    others = [
        replace(model, table=model.table._replace(probabilities=probabilities)),
        replace(model, vocabulary=("Oil", *WORDS[1:])),
        replace(model, restarts=model.restarts[:1]),
        replace(model, settings={"seed": 2}),
        replace(model, corpus="another"),
    ]
    digests = {write_model(tmp_path / str(n), m) for n, m in enumerate([model, *others])}
    assert len(digests) == 6


def test_the_order_that_was_chosen_is_the_first_of_least_bic() -> None:
    model = make_model()
    assert model.record == model.restarts[0][1]
    twice = replace(model, restarts=(model.restarts[0], (replace(model.record, n_topics=9),)))
    assert twice.record.n_topics == 2


def test_top_words_are_those_that_a_topic_makes_more_likely() -> None:
    model = make_model()
    assert model.top_words(0, 10) == ["barrel", "oil"]
    assert model.top_words(1, 10) == ["bank"]
    assert model.top_words(0, 1) == ["barrel"]


def test_any_damage_to_a_model_is_found(tmp_path: Path) -> None:
    write_model(tmp_path / "m", make_model())
    paths = sorted(path for path in (tmp_path / "m").rglob("*") if path.is_file())
    assert len(paths) == 15
    for path in paths:
        content = path.read_bytes()
        wrong = bytearray(content)
        wrong[len(wrong) // 2] ^= 16
        path.write_bytes(wrong)
        assert verify(tmp_path / "m"), path
        if path.parent.name == "c" or path.name == "c":
            with pytest.raises(DamagedStoreError, match="is damaged"):
                read_model(tmp_path / "m")
        path.write_bytes(content)
    assert verify(tmp_path / "m") == []


def test_only_a_model_is_read_as_one(tmp_path: Path) -> None:
    write_corpus(tmp_path / "c")
    with pytest.raises(InputError, match="must be a model store, but it is a corpus store"):
        read_model(tmp_path / "c")
    with pytest.raises(InputError, match="there is no store at"):
        read_model(tmp_path / "m")


def test_a_model_is_described(tmp_path: Path) -> None:
    digest = write_model(tmp_path / "m", make_model())
    facts = json.loads(json.dumps(describe(tmp_path / "m")))
    size = sum(path.stat().st_size for path in (tmp_path / "m").rglob("*") if path.is_file())
    assert facts == {
        "kind": "model",
        "format": "atd-dask-model/1",
        "url": str(tmp_path / "m"),
        "digest": digest,
        "bytes": size,
        "topics": 2,
        "words": 7,
        "specific": 6,
        "bic": 110.25,
        "log_likelihood": -99.5,
        "topics_per_document": 1.25,
        "words_per_topic": 3.0,
        "restarts": 2,
        "orders": 3,
        "top_words": {"topic 0": ["barrel", "oil"], "topic 1": ["bank"]},
        "settings": SETTINGS,
        "corpus": "digest of the corpus",
    }


def test_the_first_topics_stand_for_all(tmp_path: Path) -> None:
    write_model(tmp_path / "m", make_model(n_topics=12))
    shown = describe(tmp_path / "m")["top_words"]
    assert isinstance(shown, dict)
    assert list(shown) == [f"topic {number}" for number in range(10)]
