"""Stores of earlier versions must open, read and verify forever.

`python -m tests.storage.test_archive` writes the sample of the current version. A sample is never
written again once its version is released: a new version adds one.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import fsspec
import numpy as np

from atd_dask.documents import Copies, CountBatch
from atd_dask.storage import texts
from atd_dask.storage.corpus import VERSION, CorpusStore
from atd_dask.storage.corpus_writer import CorpusWriter
from atd_dask.storage.inspection import describe
from atd_dask.storage.texts import TextStore, TextWriter
from atd_dask.storage.verification import verify

DATA = Path(__file__).parent / "data"

VOCABULARY = ["coffee", "ship", "crème", "茶"]
COUNTS = CountBatch(
    ["first", "second", "", "fourth 😀"],
    [("coffee",), ("coffee", "ship"), (), ("a label",)],
    np.array([0, 2, 3, 3, 6]),
    np.array([0, 2, 1, 0, 1, 3]),
    np.array([1, 2, 3, 4, 2**31 - 1, 6]),
)
UNSEEN_WORDS = ["tea", "boat\0"]
UNSEEN = CountBatch(
    COUNTS.ids, COUNTS.labels, np.array([0, 0, 1, 2, 2]), np.array([1, 0]), np.array([5, 7])
)
COPIES = Copies(np.array([-1, -1, 0, 0]), np.array([True, False, True, True]))
ATTRIBUTES = {"name": "archive", "part": "train", "seed": 1}
DIGEST = "c64585552a787c13cecdfd62f6f3cd0c765e466548ac2ed64e9ceb291b03c4ac"
DIGEST_2 = "21d8530ea04f6362a8b5e6be9c6b9179cb302d571aa659ce9ada76d923782d39"


TEXTS = ["Coffee <b>first</b>", "", "a\0b\n東京 😀", "x" * 300]


def make_archive() -> None:
    url = "memory://archive"
    with CorpusWriter(
        url, VOCABULARY, UNSEEN_WORDS, ATTRIBUTES, COPIES, block_entries=3, block_documents=2
    ) as writer:
        writer.append(COUNTS, UNSEEN)
    pack("archive", f"corpus-v{VERSION}.zip")
    print(CorpusStore.open(url).digest)


def make_texts() -> None:
    with TextWriter("memory://texts", DIGEST) as writer:
        writer.append(text.encode() for text in TEXTS)
    pack("texts", f"texts-v{texts.VERSION}.zip")


def pack(folder: str, target: str) -> None:
    memory = fsspec.filesystem("memory")
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted(memory.find(f"/{folder}")):
            name = zipfile.ZipInfo(path.removeprefix(f"/{folder}/"))
            name.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(name, memory.cat_file(path))
    (DATA / target).write_bytes(content.getvalue())


def test_a_store_of_version_1_is_read(tmp_path: Path) -> None:
    store = check_archive(tmp_path / "c", 1)
    assert store.digest == DIGEST
    # Copies were not looked for.
    assert store.n_copies is None
    assert store.copies() is None
    assert store.without_copies() is store
    assert store.representatives().tolist() == [0, 1, 2, 3]


def test_a_store_of_version_2_is_read(tmp_path: Path) -> None:
    store = check_archive(tmp_path / "c", 2)
    assert store.digest == DIGEST_2
    copies = store.copies()
    assert copies is not None
    np.testing.assert_array_equal(copies.copy_of, COPIES.copy_of)
    np.testing.assert_array_equal(copies.in_training, COPIES.in_training)
    assert store.n_copies == 2
    assert store.without_copies().lengths().tolist() == [3, 3]


def check_archive(path: Path, version: int) -> CorpusStore:
    with zipfile.ZipFile(DATA / f"corpus-v{version}.zip") as archive:
        archive.extractall(path)
    assert verify(path) == []
    store = CorpusStore.open(path)
    assert (store.n_docs, store.n_words, store.n_entries) == (4, 4, 6)
    assert store.n_tokens == 1 + 2 + 3 + 4 + 2**31 - 1 + 6
    assert store.vocabulary == tuple(VOCABULARY)
    assert store.unseen_words == tuple(UNSEEN_WORDS)
    assert store.ids() == COUNTS.ids
    assert store.labels() == COUNTS.labels
    assert store.lengths().tolist() == [3, 3, 0, 2**31 + 9]
    assert store.attributes == ATTRIBUTES
    assert store.block_starts.tolist() == [0, 2, 4]
    np.testing.assert_array_equal(store.block(1).indptr, [0, 0, 3])
    np.testing.assert_array_equal(store.block(1).terms, [0, 1, 3])
    np.testing.assert_array_equal(store.block(1).counts, [4, 2**31 - 1, 6])
    np.testing.assert_array_equal(store.unseen().toarray(), [[0, 0], [0, 5], [7, 0], [0, 0]])
    assert describe(path)["format"] == f"atd-dask-corpus/{version}"
    return store


def test_a_store_of_texts_of_version_1_is_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(DATA / "texts-v1.zip") as archive:
        archive.extractall(tmp_path / "t")
    assert verify(tmp_path / "t") == []
    store = TextStore.open(tmp_path / "t")
    assert [store.read(row) for row in range(store.n_docs)] == TEXTS
    assert store.corpus == DIGEST


if __name__ == "__main__":
    make_archive()
    make_texts()
