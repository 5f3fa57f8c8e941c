from __future__ import annotations

import gzip
import json
from collections import Counter

import numpy as np
import pytest

from atd_dask.cli.outputs import make_progress
from atd_dask.config.loader import load
from atd_dask.errors import InputError
from atd_dask.pipelines import ingest as stage
from atd_dask.pipelines.ingest import ingest
from atd_dask.stages import reading
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.run_layout import RunLayout
from atd_dask.storage.stage_notes import TextsSummary
from atd_dask.storage.texts import TextStore
from atd_dask.storage.verification import verify
from atd_dask.text.counting import KEPT_CHARACTERS
from atd_dask.text.readers.ldac import write_ldac
from tests.clusters import local_client
from tests.shared import shared

PARTS = ("train", "validation", "test")


@pytest.fixture(scope="module")
def client():
    with local_client() as made:
        yield made


def make(tmp_path, client, text, *overrides, fresh=False):
    conf = tmp_path / "conf.yaml"
    conf.write_text(text)
    config = load(conf, [f"output={tmp_path / 'out'}", *overrides])
    summary = ingest(config, client, make_progress(quiet=True), fresh)
    stores = {part: CorpusStore.open(RunLayout(config.output).corpus(part)) for part in PARTS}
    return summary, stores


def write_jsonl(path, documents):
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))


JSONL = """
corpus:
  train: {format: jsonl, path: train.jsonl}
  validation: {format: jsonl, path: validation.jsonl}
  test: {format: jsonl, path: test.jsonl}
  text: {stemmer: none, min_document_frequency: 2}
"""


@pytest.fixture
def documents(tmp_path):
    write_jsonl(
        tmp_path / "train.jsonl",
        [
            {"id": "a", "text": "Coffee coffee beans", "labels": ["coffee"]},
            {"id": "b", "text": "coffee, beans; tea"},
            {"id": "a", "text": "again"},
            {"id": "c", "text": "12 34"},
        ],
    )
    write_jsonl(tmp_path / "validation.jsonl", [{"text": "coffee rare"}])
    write_jsonl(
        tmp_path / "test.jsonl",
        [{"id": "x", "text": "ships ships beans"}, {"id": "y", "text": "nothing known"}],
    )


def test_text_becomes_three_stores_over_the_words_of_train(tmp_path, client, documents):
    summary, stores = make(tmp_path, client, JSONL)
    assert [store.vocabulary for store in stores.values()] == [("beans", "coffee")] * 3
    assert stores["train"].ids() == ["a", "b"]
    assert stores["train"].labels() == [("coffee",), ()]
    np.testing.assert_array_equal(stores["train"].matrix().toarray(), [[1, 2], [1, 1]])
    assert stores["train"].unseen_words == ("tea",)
    assert stores["validation"].ids() == ["validation.jsonl:1"]
    np.testing.assert_array_equal(stores["test"].matrix().toarray(), [[1, 0], [0, 0]])
    assert stores["test"].unseen_words == ("known", "nothing", "ships")
    np.testing.assert_array_equal(stores["test"].unseen().toarray(), [[0, 0, 2], [1, 1, 0]])
    skipped = {reason: found.to_json() for reason, found in summary["train"].skipped.items()}
    assert skipped == {
        "its text has no words that are kept": {"documents": 1, "first": "document 'c'"},
        "its id occurs earlier in the corpus": {"documents": 1, "first": "document 'a'"},
    }
    assert all(verify(store.url) == [] for store in stores.values())


def test_stores_of_the_same_documents_are_left_as_they_are(tmp_path, client, documents):
    first, _ = make(tmp_path, client, JSONL)
    inode = (tmp_path / "out/corpus/train.zarr").stat().st_ino
    again, _ = make(tmp_path, client, JSONL)
    assert again == first
    assert (tmp_path / "out/corpus/train.zarr").stat().st_ino == inode
    make(tmp_path, client, JSONL, fresh=True)
    inode_fresh = (tmp_path / "out/corpus/train.zarr").stat().st_ino
    assert inode_fresh != inode
    write_jsonl(tmp_path / "test.jsonl", [{"id": "x", "text": "beans"}])
    _, changed = make(tmp_path, client, JSONL)
    assert changed["test"].ids() == ["x"]
    _, other = make(tmp_path, client, JSONL, "corpus.text.min_document_frequency=1")
    assert "tea" in other["train"].vocabulary


def test_the_documents_are_only_read_to_compare_them_if_there_are_stores(
    tmp_path, client, documents, monkeypatch
):
    looked = []
    look = reading.look_at_files

    def watch(path, *others):
        looked.append(path.rpartition("/")[2])
        return look(path, *others)

    monkeypatch.setattr(reading, "look_at_files", watch)
    first, _ = make(tmp_path, client, JSONL)
    assert looked == []
    note = (tmp_path / "out/stages/ingest.json").read_bytes()
    again, _ = make(tmp_path, client, JSONL)
    assert looked == ["train.jsonl", "validation.jsonl", "test.jsonl"]
    assert again == first
    make(tmp_path, client, JSONL, fresh=True)
    assert len(looked) == 3
    assert (tmp_path / "out/stages/ingest.json").read_bytes() == note


def test_stores_are_known_by_the_documents_that_were_read(tmp_path, client, documents, monkeypatch):
    make(tmp_path, client, JSONL)
    look = stage.look_at_inputs

    def look_and_change(*given, **options):
        found = look(*given, **options)
        write_jsonl(tmp_path / "test.jsonl", [{"id": "late", "text": "beans"}])
        return found

    write_jsonl(tmp_path / "test.jsonl", [{"id": "early", "text": "beans"}])
    monkeypatch.setattr(stage, "look_at_inputs", look_and_change)
    _, stores = make(tmp_path, client, JSONL)
    assert stores["test"].ids() == ["late"]
    monkeypatch.undo()
    inode = (tmp_path / "out/corpus/test.zarr").stat().st_ino
    make(tmp_path, client, JSONL)
    assert (tmp_path / "out/corpus/test.zarr").stat().st_ino == inode
    # Of the same size: nothing but the content tells.
    write_jsonl(tmp_path / "test.jsonl", [{"id": "soon", "text": "beans"}])
    _, stores = make(tmp_path, client, JSONL)
    assert stores["test"].ids() == ["soon"]


def test_a_missing_batch_is_told_before_anything_is_read(tmp_path, client, documents, monkeypatch):
    monkeypatch.setattr(stage, "make_corpus", None)
    with pytest.raises(InputError, match=r"missing/test\.jsonl must exist to be read"):
        make(tmp_path, client, JSONL, "corpus.test.path=memory://missing/test.jsonl")


def test_a_damaged_store_is_made_again(tmp_path, client, documents):
    make(tmp_path, client, JSONL)
    (tmp_path / "out/corpus/test.zarr/manifest.json").write_bytes(b"{")
    _, stores = make(tmp_path, client, JSONL)
    assert verify(stores["test"].url) == []


def test_the_texts_of_the_batch_are_kept_unless_they_are_not_to_be(tmp_path, client, documents):
    long = "beans " * KEPT_CHARACTERS
    write_jsonl(
        tmp_path / "test.jsonl",
        [
            {"id": "x", "text": "Ships & <b>beans</b>"},
            {"id": "empty", "text": "1"},
            {"id": "x", "text": "again"},
            {"id": "y", "text": "a\0\ud800 nothing"},
            {"id": "z", "text": long},
        ],
    )
    summary, stores = make(tmp_path, client, JSONL)
    texts = TextStore.open(RunLayout(str(tmp_path / "out")).texts())
    assert summary["test"].texts == TextsSummary(path=texts.url, digest=texts.digest)
    assert texts.corpus == stores["test"].digest
    assert stores["test"].ids() == ["x", "y", "z"]
    assert [texts.read(row) for row in range(texts.n_docs)] == [
        *("Ships & <b>beans</b>", "a\0\ufffd nothing", long[:KEPT_CHARACTERS])
    ]
    assert verify(texts.url) == []
    (tmp_path / "out/corpus/test-texts.zarr/manifest.json").write_bytes(b"{")
    make(tmp_path, client, JSONL)
    assert TextStore.open(texts.url).digest == texts.digest

    without, again = make(tmp_path, client, JSONL, "corpus.keep_text=false")
    assert without["test"].texts is None
    assert not (tmp_path / "out/corpus/test-texts.zarr").exists()
    # What is computed does not hang on it.
    assert [store.digest for store in again.values()] == [s.digest for s in stores.values()]


def test_a_share_of_train_is_set_aside_for_validation(tmp_path, client):
    write_jsonl(
        tmp_path / "train.jsonl", [{"id": str(n), "text": f"word common {n}"} for n in range(40)]
    )
    write_jsonl(tmp_path / "test.jsonl", [{"text": "common"}])
    text = """
corpus:
  train: {format: jsonl, path: train.jsonl}
  test: {format: jsonl, path: test.jsonl}
  validation_share: 0.25
"""
    _, stores = make(tmp_path, client, text)
    train, aside = set(stores["train"].ids()), set(stores["validation"].ids())
    assert len(aside) == 10
    assert not train & aside
    assert train | aside == {str(n) for n in range(40)}
    _, again = make(tmp_path, client, text, fresh=True)
    assert again["validation"].ids() == stores["validation"].ids()
    _, other = make(tmp_path, client, text, "seed=2")
    assert set(other["validation"].ids()) != aside


def test_formats_may_be_mixed(tmp_path, client, documents):
    (tmp_path / "words.txt").write_text("tea\ncoffee\nunused\n")
    (tmp_path / "train.ldac").write_text("2 0:1 1:2\n1 1:1\n")
    text = """
corpus:
  train: {format: ldac, path: train.ldac, vocabulary: words.txt}
  validation: {format: ldac, path: train.ldac}
  test: {format: jsonl, path: test.jsonl}
  text: {stemmer: none}
"""
    _, stores = make(tmp_path, client, text)
    assert stores["test"].vocabulary == ("tea", "coffee", "unused")
    assert stores["validation"].unseen_words == ("0", "1")
    assert stores["test"].n_tokens == 0


def test_a_store_is_a_source(tmp_path, client, documents):
    _, stores = make(tmp_path, client, JSONL)
    (tmp_path / "second").mkdir()
    text = f"""
corpus:
  train: {{format: zarr, path: {stores["train"].url}}}
  validation: {{format: zarr, path: {stores["validation"].url}}}
  test: {{format: zarr, path: {stores["test"].url}}}
"""
    _, copies = make(tmp_path / "second", client, text)
    for part in PARTS:
        assert (copies[part].matrix() != stores[part].matrix()).nnz == 0
        assert copies[part].ids() == stores[part].ids()
        assert copies[part].vocabulary == stores[part].vocabulary


def test_no_word_at_all_is_one_sentence(tmp_path, client):
    write_jsonl(tmp_path / "train.jsonl", [{"text": "1 2 3"}])
    write_jsonl(tmp_path / "test.jsonl", [{"text": "word"}])
    text = """
corpus:
  train: {format: jsonl, path: train.jsonl}
  test: {format: jsonl, path: test.jsonl}
"""
    with pytest.raises(InputError, match=r"corpus\.train must have documents .* has no words"):
        make(tmp_path, client, text)


def test_what_is_wrong_in_a_worker_reaches_the_user(tmp_path, client):
    (tmp_path / "train.jsonl.gz").write_bytes(gzip.compress(b'{"text": "a word"}\n' * 9)[:-4])
    write_jsonl(tmp_path / "test.jsonl", [{"text": "word"}])
    text = """
corpus:
  train: {format: jsonl, path: train.jsonl.gz}
  test: {format: jsonl, path: test.jsonl}
"""
    with pytest.raises(InputError, match="must be a whole gzip file"):
        make(tmp_path, client, text)


def test_every_number_of_workers_gives_the_same_stores(tmp_path, documents):
    digests = []
    for workers in (1, 3):
        with local_client(workers, threads=2) as made:
            _, stores = make(tmp_path, made, JSONL, fresh=True)
            digests.append([store.digest for store in stores.values()])
    assert digests[0] == digests[1]


def test_lda_c_comes_back_as_it_was(tmp_path, client):
    folder = shared("corpora/newsgroups")
    lines = "".join(
        f"  {part}: {{format: ldac, path: {folder}/{part}.ldac.gz, labels: {folder}/{part}.labels,"
        f" vocabulary: {folder}/vocabulary.txt}}\n"
        for part in PARTS
    )
    _, stores = make(tmp_path, client, f"corpus:\n{lines}")
    for part, store in stores.items():
        back = tmp_path / f"{part}.ldac"
        write_ldac(str(back), store.batches())
        with gzip.open(folder / f"{part}.ldac.gz", "rt") as original, back.open() as copy:
            for line, other in zip(original, copy, strict=True):
                assert line.split()[0] == other.split()[0]
                assert Counter(line.split()[1:]) == Counter(other.split()[1:])
        labels = (folder / f"{part}.labels").read_text().splitlines()
        assert [" ".join(some) for some in store.labels()] == [" ".join(x.split()) for x in labels]
        words = (folder / "vocabulary.txt").read_text().split()
        assert list(store.vocabulary) == words


def test_many_words_that_training_lacks_are_told(tmp_path, client, capsys):
    lines = {
        "train": ["bank rate share", "share market bank"],
        "test": ["bank share", "goal match striker"],
    }
    for part, texts in lines.items():
        rows = [json.dumps({"id": str(n), "text": text}) for n, text in enumerate(texts)]
        (tmp_path / f"{part}.jsonl").write_text("\n".join(rows) + "\n")
    (tmp_path / "conf.yaml").write_text(
        "corpus:\n"
        "  train: {format: jsonl, path: train.jsonl}\n"
        "  test: {format: jsonl, path: test.jsonl}\n"
        "  validation: {format: jsonl, path: train.jsonl}\n"
    )
    config = load(tmp_path / "conf.yaml", [f"output={tmp_path / 'out'}"])
    ingest(config, client, make_progress())
    told = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert len(told) == 1
    assert "60% of the words of the batch (3 of 5) are in no training document, such as" in told[0]
    assert "such as goal, match, striker: " in told[0]


def test_a_label_with_control_characters_stops_nobody(tmp_path, client, documents):
    labels = ["a\tb", "c\r\nd", "\x00", "plain"]
    document = {"id": "z", "text": "beans coffee", "labels": labels}
    with (tmp_path / "test.jsonl").open("a") as file:
        file.write(json.dumps(document) + "\n")
    _, stores = make(tmp_path, client, JSONL)
    assert stores["test"].labels()[-1] == ("a b", "c d", "plain")
