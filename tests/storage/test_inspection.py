from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from atd_dask.errors import InputError
from atd_dask.storage.corpus_writer import CorpusWriter
from atd_dask.storage.groups import GroupWriter
from atd_dask.storage.inspection import describe
from tests.storage.corpora import UNSEEN, WORDS, random_counts, write_corpus


def test_a_corpus_is_described(tmp_path: Path) -> None:
    store = write_corpus(tmp_path / "c", n_docs=20)
    facts = json.loads(json.dumps(describe(tmp_path / "c")))
    size = sum(path.stat().st_size for path in (tmp_path / "c").rglob("*") if path.is_file())
    assert facts == {
        "kind": "corpus",
        "format": "atd-dask-corpus/2",
        "url": str(tmp_path / "c"),
        "digest": store.digest,
        "bytes": size,
        "documents": 20,
        "words": 8,
        "entries": store.matrix().nnz,
        "tokens": int(store.matrix().sum()),
        "blocks": 1,
        "mean_length": int(store.matrix().sum()) / 20,
        "unseen_words": len(UNSEEN),
        "unseen_tokens": int(store.unseen().sum()),
        "n_labels": 2,
        "labels": {"earn": 13, "ship": 6},
        "first_words": WORDS,
        "first_ids": [f"document {number}" for number in range(10)],
        "attributes": {"name": "test", "seed": 1},
    }


def test_the_most_frequent_labels_come_first(tmp_path: Path) -> None:
    counts = random_counts(1, 30, 8)
    labels = [tuple(f"label {number:02}" for number in range(row + 1)) for row in range(30)]
    with CorpusWriter(tmp_path / "c", WORDS) as writer:
        writer.append(type(counts)(counts.ids, labels, counts.indptr, counts.terms, counts.counts))
    facts = describe(tmp_path / "c")
    assert facts["n_labels"] == 30
    assert facts["labels"] == {f"label {number:02}": 30 - number for number in range(20)}
    assert list(facts["labels"]) == [f"label {number:02}" for number in range(20)]


def test_an_empty_corpus_is_described(tmp_path: Path) -> None:
    with CorpusWriter(tmp_path / "c", WORDS):
        pass
    facts = describe(tmp_path / "c")
    assert (facts["documents"], facts["mean_length"], facts["labels"]) == (0, 0.0, {})


def test_a_store_of_another_kind_is_described_by_its_manifest(tmp_path: Path) -> None:
    with GroupWriter(tmp_path / "m", "atd-dask-model/9") as writer:
        writer.group("", {})
        writer.put("a", np.arange(3))
        writer.seal({"topics": 3})
    facts = describe(tmp_path / "m")
    assert (facts["kind"], facts["format"], facts["topics"]) == ("model", "atd-dask-model/9", 3)


def test_nothing_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no store at"):
        describe(tmp_path / "c")
