from __future__ import annotations

import json
import pickle
import uuid
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import fsspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atd_dask.documents import CountBatch
from atd_dask.errors import DamagedStoreError, InputError
from atd_dask.storage import corpus_writer, groups
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.corpus_writer import CorpusWriter
from atd_dask.storage.manifest import Manifest
from atd_dask.storage.verification import verify
from tests.storage.corpora import ANNDATA, UNSEEN, WORDS, random_counts, write_corpus

HARD = ["", "\0", "end\0", "\n", "😀", "é", "x" * 100_000, "\ufffdmissing", " ", "<b>"]


class Case(NamedTuple):
    words: list[str]
    unseen_words: list[str]
    documents: list[tuple[str, tuple[str, ...], dict[int, int], dict[int, int]]]
    cuts: list[int]
    block_entries: int
    block_documents: int


@st.composite
def cases(draw: st.DrawFn) -> Case:
    text = st.one_of(st.text(max_size=5), st.sampled_from(HARD))
    labels = st.lists(text.filter(lambda label: label and "\t" not in label), max_size=3)
    words = draw(st.lists(text, max_size=6, unique=True))
    unseen_words = draw(st.lists(text, max_size=3, unique=True))

    def row(n_words: int) -> st.SearchStrategy[dict[int, int]]:
        counts = st.integers(1, 2**31 - 1)
        return st.dictionaries(st.integers(0, n_words - 1), counts) if n_words else st.just({})

    document = st.tuples(text, labels.map(tuple), row(len(words)), row(len(unseen_words)))
    documents = draw(st.lists(document, max_size=12))
    cuts = draw(st.lists(st.integers(0, len(documents)), max_size=3))
    return Case(
        words, unseen_words, documents, cuts, draw(st.integers(1, 8)), draw(st.integers(1, 5))
    )


def to_batch(case: Case, start: int, stop: int, column: int) -> CountBatch:
    documents = case.documents[start:stop]
    rows = [sorted(document[column].items()) for document in documents]
    pairs = np.array([pair for row in rows for pair in row], dtype=np.int64).reshape(-1, 2)
    return CountBatch(
        [document[0] for document in documents],
        [document[1] for document in documents],
        np.cumsum([0, *map(len, rows)], dtype=np.int64),
        pairs[:, 0],
        pairs[:, 1],
    )


def write_case(case: Case, cuts: list[int]) -> str:
    url = f"memory://{uuid.uuid4().hex}"
    edges = sorted([0, *cuts, len(case.documents)])
    with CorpusWriter(
        url,
        case.words,
        case.unseen_words,
        {"name": "hard \0 case", "parts": [1, {"b": None}]},
        block_entries=case.block_entries,
        block_documents=case.block_documents,
    ) as writer:
        for start, stop in pairwise(edges):
            writer.append(to_batch(case, start, stop, 2), to_batch(case, start, stop, 3))
    return url


def expected_starts(case: Case) -> list[int]:
    starts, entries = [0], 0
    for index, document in enumerate(case.documents, start=1):
        entries += len(document[2])
        if entries >= case.block_entries or index - starts[-1] >= case.block_documents:
            starts.append(index)
            entries = 0
    return starts if starts[-1] == len(case.documents) else [*starts, len(case.documents)]


@settings(max_examples=30)
@given(cases())
def test_what_is_written_comes_back(case: Case) -> None:
    store = CorpusStore.open(write_case(case, case.cuts))
    n_docs = len(case.documents)
    assert (store.n_docs, store.n_words) == (n_docs, len(case.words))
    assert store.n_entries == sum(len(document[2]) for document in case.documents)
    lengths = [sum(document[2].values()) for document in case.documents]
    assert store.n_tokens == sum(lengths)
    assert store.lengths().tolist() == lengths
    assert store.vocabulary == tuple(case.words)
    assert store.unseen_words == tuple(case.unseen_words)
    assert store.ids() == [document[0] for document in case.documents]
    assert store.labels() == [document[1] for document in case.documents]
    assert store.attributes == {"name": "hard \0 case", "parts": [1, {"b": None}]}
    for matrix, column in ((store.matrix(), 2), (store.unseen(), 3)):
        batch = to_batch(case, 0, n_docs, column)
        np.testing.assert_array_equal(matrix.indptr, batch.indptr)
        np.testing.assert_array_equal(matrix.indices, batch.terms)
        np.testing.assert_array_equal(matrix.data, batch.counts)
    assert store.block_starts.tolist() == expected_starts(case)
    assert store.n_blocks == len(store.block_starts) - 1
    for batch, (start, stop) in zip(store.batches(), pairwise(store.block_starts), strict=True):
        expected = to_batch(case, start, stop, 2)
        assert (list(batch.ids), list(batch.labels)) == (expected.ids, expected.labels)
        for name in ("indptr", "terms", "counts"):
            np.testing.assert_array_equal(getattr(batch, name), getattr(expected, name))
        assert (batch.indptr.dtype, batch.terms.dtype, batch.counts.dtype) == ("i8", "i4", "i4")


@settings(max_examples=10)
@given(cases())
def test_the_bytes_do_not_depend_on_the_batches(case: Case) -> None:
    memory = fsspec.filesystem("memory")
    contents = []
    for cuts in ([], case.cuts):
        url = write_case(case, cuts)
        assert verify(url) == []
        root = url.removeprefix("memory:/")
        contents.append({path.removeprefix(root): memory.cat(path) for path in memory.find(root)})
    assert contents[0] == contents[1]


def test_blocks_hold_the_rows_of_the_matrix(tmp_path: Path) -> None:
    store = write_corpus(tmp_path / "c", n_docs=30, block_entries=20, block_documents=7)
    matrix = store.matrix()
    assert store.n_blocks > 3
    for index in range(store.n_blocks):
        block = store.block(index)
        rows = matrix[store.block_starts[index] : store.block_starts[index + 1]]
        assert block.start == store.block_starts[index]
        np.testing.assert_array_equal(block.indptr, rows.indptr)
        np.testing.assert_array_equal(block.terms, rows.indices)
        np.testing.assert_array_equal(block.counts, rows.data)
    assert len(store.rows(3, 3)) == 0
    with pytest.raises(IndexError, match=r"blocks of .*c are 0 to"):
        store.block(store.n_blocks)
    with pytest.raises(IndexError, match=r"blocks of .*c are 0 to"):
        store.block(-1)
    with pytest.raises(IndexError, match="has 30 documents, got 3 to 31"):
        store.rows(3, 31)


def test_a_block_is_read_without_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_writer, "CHUNK_ENTRIES", 16)
    monkeypatch.setattr(corpus_writer, "CHUNK_DOCUMENTS", 8)
    store = write_corpus(tmp_path / "c", n_docs=200, block_entries=20)
    store.block(0)  # also reads the bounds of all blocks
    keys: list[str] = []
    get = groups._CompleteStore.get

    async def record(self: Any, key: str, **options: Any) -> Any:
        keys.append(key)
        return await get(self, key, **options)

    monkeypatch.setattr(groups._CompleteStore, "get", record)
    ends = store.matrix().indptr
    for index in (0, store.n_blocks // 2, store.n_blocks - 1):
        start, stop = (int(bound) for bound in store.block_starts[index : index + 2])
        keys.clear()
        store.block(index)
        rows = {f"X/indptr/c/{chunk}" for chunk in range(start // 8, stop // 8 + 1)}
        chunks = range(ends[start] // 16, (ends[stop] - 1) // 16 + 1)
        entries = {f"X/{name}/c/{n}" for name in ("data", "indices") for n in chunks}
        assert sorted(keys) == sorted(rows | entries)


def test_opening_reads_only_the_manifest_and_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_corpus(tmp_path / "c")
    for path in (tmp_path / "c").iterdir():
        if path.is_dir():
            path.rename(tmp_path / path.name)
    store = CorpusStore.open(tmp_path / "c")
    assert (store.n_docs, store.n_words) == (20, 8)
    with pytest.raises(DamagedStoreError, match=r"X/indptr\[0:21\] of .* is missing"):
        store.matrix()


def test_a_store_travels_as_its_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = write_corpus("c")
    parcel = pickle.dumps(store)
    assert len(parcel) < 500
    monkeypatch.chdir("/")
    copy = pickle.loads(parcel)
    assert copy.digest == store.digest
    np.testing.assert_array_equal(copy.block(0).terms, store.block(0).terms)


def test_a_store_that_was_replaced_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    parcel = pickle.dumps(write_corpus(tmp_path / "c", seed=1))
    write_corpus(tmp_path / "c", seed=2)
    with pytest.raises(InputError, match="must stay as it is while it is in use"):
        pickle.loads(parcel)


def test_the_digest_is_that_of_the_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = write_corpus(tmp_path / "a").digest
    assert write_corpus(tmp_path / "b", seed=2).digest != first
    monkeypatch.setattr(corpus_writer, "CHUNK_ENTRIES", 16)
    assert write_corpus("memory://digest").digest == first


@ANNDATA
def test_anndata_reads_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import anndata

    monkeypatch.setattr(corpus_writer, "CHUNK_ENTRIES", 64)
    monkeypatch.setattr(corpus_writer, "CHUNK_TEXTS", 16)
    counts = random_counts(1, 50, len(WORDS) + len(HARD))
    counts = replace(counts, ids=[*HARD, *counts.ids[len(HARD) :]])
    unseen = random_counts(2, 50, 2)
    with CorpusWriter(tmp_path / "c", WORDS + HARD, UNSEEN, {"name": "n"}) as writer:
        writer.append(counts, unseen)
    store = CorpusStore.open(tmp_path / "c")
    other = anndata.read_zarr(tmp_path / "c")

    for theirs, ours, batch in (
        (other.X, store.matrix(), counts),
        (other.obsm["unseen"], store.unseen(), unseen),
    ):
        assert theirs.format == "csr"
        assert theirs.shape == ours.shape
        assert theirs.data.dtype == theirs.indices.dtype == np.int32
        for values in (theirs, ours):
            np.testing.assert_array_equal(values.data, batch.counts)
            np.testing.assert_array_equal(values.indices, batch.terms)
            np.testing.assert_array_equal(values.indptr, batch.indptr)
    assert other.obs.index.name == "id"
    assert other.obs_names.tolist() == list(counts.ids) == store.ids()
    assert list(other.obs.columns) == ["labels", "length", "unseen"]
    assert other.obs["labels"].tolist() == ["\t".join(labels) for labels in counts.labels]
    assert other.obs["length"].tolist() == other.X.sum(axis=1).ravel().tolist()[0]
    assert other.obs["unseen"].tolist() == other.obsm["unseen"].sum(axis=1).ravel().tolist()[0]
    assert other.var.index.name == "word"
    assert other.var_names.tolist() == list(store.vocabulary) == WORDS + HARD
    assert list(other.uns["unseen_words"]) == UNSEEN
    assert list(other.uns["block_starts"]) == [0, 50]
    assert json.loads(other.uns["attributes"]) == {"name": "n"}
    assert set(other.layers) <= {None}, "a later anndata counts X among them"
    assert not any(map(len, (other.obsp, other.varm, other.varp)))


@ANNDATA
def test_anndata_reads_an_empty_corpus(tmp_path: Path) -> None:
    import anndata

    with CorpusWriter(tmp_path / "c", WORDS):
        pass
    store = CorpusStore.open(tmp_path / "c")
    assert (store.n_docs, store.n_blocks, store.n_tokens) == (0, 0, 0)
    assert store.block_starts.tolist() == [0]
    assert store.ids() == store.labels() == list(store.batches()) == []
    assert store.matrix().shape == (0, 8)
    assert store.unseen().shape == (0, 0)
    assert verify(tmp_path / "c") == []
    assert anndata.read_zarr(tmp_path / "c").shape == (0, 8)


def test_a_corpus_of_another_program_is_refused(tmp_path: Path) -> None:
    import zarr

    zarr.create_group(tmp_path / "c", attributes={"encoding-type": "anndata"})
    with pytest.raises(InputError, match="not a finished store of atd-dask"):
        CorpusStore.open(tmp_path / "c")


def test_a_store_of_a_later_version_says_what_to_do(tmp_path: Path) -> None:
    write_corpus(tmp_path / "c")
    path = tmp_path / "c" / "manifest.json"
    later = replace(Manifest.from_bytes(path.read_bytes()), format="atd-dask-corpus/3")
    path.write_bytes(later.to_bytes())
    with pytest.raises(InputError, match=r"corpus/3, .*up to version 2: install a newer"):
        CorpusStore.open(tmp_path / "c")


@pytest.mark.parametrize("name", ["data", "indices", "indptr"])
def test_damage_is_seen_by_who_reads_a_block(tmp_path: Path, name: str) -> None:
    store = write_corpus(tmp_path / "c")
    chunk = tmp_path / "c" / "X" / name / "c" / "0"
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 8
    chunk.write_bytes(content)
    with pytest.raises(DamagedStoreError, match=rf"X/{name}\[.*\] of .*c is damaged"):
        store.block(0)
    chunk.unlink()
    with pytest.raises(DamagedStoreError, match=rf"the chunk X/{name}/c/0 is missing"):
        store.block(0)


def damage(folder, path, change):
    """A store with correct checksums and wrong numbers."""
    store = write_corpus(folder)
    read = store._group.read

    def read_changed(name, start=0, stop=None):
        if name != path:
            return read(name, start, stop)
        values = read(name).copy()
        change(values)
        return values[start:stop]

    store._group.read = read_changed
    return store


def set_at(place, value):
    def change(values):
        values[place] = value

    return change


@pytest.mark.parametrize(
    ("path", "place", "value", "rule"),
    [
        ("X/indptr", 3, 10**6, "must ascend from 0, but do not"),
        ("X/indptr", 3, -5, "must ascend from 0, but do not"),
        ("X/indptr", -1, 10**6, "must end with the last entry of X/data, but do not"),
        ("X/indices", 5, 8, "must be from 0 to 7, but do not"),
        ("X/indices", 5, -1, "must be from 0 to 7, but do not"),
        ("X/data", 5, 0, "must be at least 1, but do not"),
        ("uns/block_starts", 0, 7, "must ascend from 0 to the number of documents, but do not"),
    ],
)
def test_numbers_that_would_lead_a_kernel_astray_are_refused(tmp_path, path, place, value, rule):
    store = damage(tmp_path / "store", path, set_at(place, value))
    with pytest.raises(InputError, match=f"the numbers of {path} in the store .* {rule}: make the"):
        list(store.batches())


def test_unseen_words_are_looked_at_too(tmp_path):
    store = damage(tmp_path / "store", "obsm/unseen/indices", set_at(0, 2))
    with pytest.raises(InputError, match=r"unseen/indices .* must be from 0 to"):
        store.unseen()
    with pytest.raises(InputError, match=r"unseen/indices .* must be from 0 to"):
        store.unseen_rows(0, store.n_docs)


def test_counts_as_an_array_of_the_package_sparse(tmp_path: Path) -> None:
    store = write_corpus(tmp_path / "c.zarr")
    array = store.to_sparse()
    assert (array.shape, array.compressed_axes) == ((store.n_docs, store.n_words), (0,))
    np.testing.assert_array_equal(array.todense(), store.matrix().toarray())
    np.testing.assert_array_equal(array.sum(axis=1).todense(), store.lengths())
    np.testing.assert_array_equal(store.to_sparse(unseen=True).todense(), store.unseen().toarray())
