"""What is new, in every format that a repository may have."""

from __future__ import annotations

import csv
import gzip
import json

import pytest

from atd_dask.cli.outputs import make_progress
from atd_dask.config.run_config import CorpusConfig, RunConfig
from atd_dask.documents import CountBatch
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.corpus_writer import CorpusWriter
from atd_dask.storage.run_layout import RunLayout
from atd_dask.sweeps.collecting import collect
from atd_dask.sweeps.journal import Journal
from atd_dask.text.counting import count_shard
from atd_dask.text.novelty import describe_documents
from atd_dask.text.options import Source, TextOptions
from atd_dask.text.readers import stamps
from tests.clusters import local_client
from tests.pipelines.sweeping import age
from tests.storage.corpora import random_counts, write_corpus

TEXTS = {"one": "alpha beta beta", "two": "gamma gamma unheard", "three": "delta alpha"}
KEYS = ("id", "text")


def write_jsonl(folder, documents):
    with gzip.open(folder / f"{len(documents)}.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(dict(zip(KEYS, d, strict=True))) + "\n" for d in documents)


def write_csv(folder, documents):
    with (folder / "all.csv").open("w", newline="") as file:
        csv.writer(file).writerows([KEYS, *documents])


def write_parquet(folder, documents):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    columns = {key: [d[place] for d in documents] for place, key in enumerate(KEYS)}
    write_table(pyarrow.table(columns), folder / f"{len(documents)}.parquet")


def write_text(folder, documents):
    for name, text in documents:
        (folder / name).write_text(text)


WRITERS = {"jsonl": write_jsonl, "csv": write_csv, "parquet": write_parquet, "text": write_text}


class Sweeper:
    """Collects repeatedly, with a journal."""

    def __init__(self, folder, source):
        self.train = write_corpus(folder / "train.zarr")
        corpus = CorpusConfig(test=source, text=TextOptions(stop_words="none", stemmer="none"))
        self.config = RunConfig(output=str(folder / "out"), corpus=corpus)
        self.journal = Journal(str(folder / "journal"))
        self.n = 0

    def collect(self, client=None):
        """The ids of new documents, and how many keys were added."""
        found = collect(self.config, self.journal, self.train, client, make_progress(quiet=True))
        self.n += 1
        self.journal = self.journal.add(str(self.n), found.keys)
        if found.summary is None:
            return [], len(found.keys)
        store = CorpusStore.open(RunLayout(self.config.output).corpus("new"))
        assert store.vocabulary == self.train.vocabulary
        return sorted(store.ids()), len(found.keys)


@pytest.mark.parametrize("kind", WRITERS)
def test_new_documents_of_a_folder(tmp_path, kind):
    folder = tmp_path / "repository"
    folder.mkdir()
    documents = list(TEXTS.items())
    WRITERS[kind](folder, documents[:2])
    for path in folder.iterdir():
        age(path)
    sweeper = Sweeper(tmp_path, Source(format=kind, path=str(folder)))
    n_files = len(list(folder.iterdir()))
    assert sweeper.collect() == (["one", "two"], 2 + n_files)
    assert sweeper.collect() == ([], 0)
    WRITERS[kind](folder, documents)
    assert sweeper.collect() == (["three"], 1), "a file of now is not yet trusted to stay"
    documents[0] = ("one", "alpha beta")
    WRITERS[kind](folder, documents)
    for path in folder.iterdir():
        age(path)
    ids, _ = sweeper.collect()
    assert ids == ["one"]
    assert sweeper.collect() == ([], 0)


def test_a_store_as_a_repository(tmp_path):
    path = tmp_path / "growing.zarr"
    sweeper = Sweeper(tmp_path, Source(format="zarr", path=str(path)))
    write_corpus(path, n_docs=5)
    assert sweeper.collect() == ([f"document {n}" for n in range(5)], 6)
    assert sweeper.collect() == ([], 0)
    whole = random_counts(1, 5, 8)
    with CorpusWriter(path, sweeper.train.vocabulary, sweeper.train.unseen_words) as writer:
        writer.append(whole, random_counts(2, 5, 2))
        writer.append(random_counts(7, 2, 8, start=5))
    assert sweeper.collect() == (["document 5", "document 6"], 3)


def test_many_files_are_read_on_the_cluster(tmp_path, monkeypatch):
    folder = tmp_path / "repository"
    folder.mkdir()
    for n in range(4):
        (folder / f"{n}.jsonl").write_text(json.dumps({"id": str(n), "text": "alpha"}) + "\n")
    sweeper = Sweeper(tmp_path, Source(format="jsonl", path=str(folder)))
    with local_client(1) as client:
        monkeypatch.setattr(stamps, "SETTLED", 60.0)
        assert sweeper.collect(client) == (["0", "1", "2", "3"], 4)
        # Just written, the files are read again, and known.
        monkeypatch.setattr(stamps, "SETTLED", 0.0)
        assert sweeper.collect(client) == ([], 4)
        assert sweeper.collect() == ([], 0)


class Texts:
    def __init__(self, *texts):
        self.texts = texts

    def read(self):
        from atd_dask.documents import Document

        return (Document(str(n), text) for n, text in enumerate(self.texts))


def test_a_document_is_known_by_its_words_alone():
    options = TextOptions(stop_words="none", stemmer="none")

    def describe(*texts):
        return describe_documents(count_shard(Texts(*texts), options))

    (first,) = describe("delta Alpha, alpha")
    other, again, more = describe("zeta", "alpha delta alpha!", "alpha delta alpha alpha")
    assert again[1] == first[1]
    assert again[0] != first[0]
    assert len({first[1], other[1], more[1]}) == 3


def test_an_empty_batch_has_no_documents():
    from atd_dask.text.counting import WordCounts

    batch = random_counts(1, 0, 8)
    assert isinstance(batch, CountBatch)
    assert describe_documents(WordCounts((), batch)) == []
