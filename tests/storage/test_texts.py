from __future__ import annotations

import uuid
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atd_dask.errors import DamagedStoreError, InputError
from atd_dask.storage import texts as texts_module
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.inspection import describe
from atd_dask.storage.texts import TextStore, TextWriter
from atd_dask.storage.verification import verify

TEXTS = ["", "plain", "a\0b\nc", "東京 😀", "x" * 1000, "\ufffdmissing", ""]


def write(url: object, texts: list[str], corpus: str = "of these") -> TextStore:
    with TextWriter(str(url), corpus) as writer:
        for start in range(0, len(texts), 3):
            writer.append(text.encode() for text in texts[start : start + 3])
    return TextStore.open(str(url))


@settings(max_examples=20)
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=40) | st.sampled_from(TEXTS)))
def test_what_is_written_comes_back(texts: list[str]) -> None:
    store = write(f"memory://{uuid.uuid4().hex}", texts)
    assert [store.read(row) for row in reversed(range(store.n_docs))] == texts[::-1]
    assert (store.n_docs, store.corpus) == (len(texts), "of these")
    assert store.n_bytes == sum(len(text.encode()) for text in texts)


def test_a_row_is_read_without_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts_module, "CHUNK_BYTES", 64)
    write(tmp_path / "t", [f"{number:064d}" for number in range(50)])
    chunks = sorted((tmp_path / "t" / "bytes" / "c").iterdir(), key=lambda path: int(path.name))
    assert len(chunks) == 50
    for chunk in chunks[:30]:
        chunk.unlink()
    store = TextStore.open(tmp_path / "t")
    assert store.read(40) == f"{40:064d}"
    with pytest.raises(DamagedStoreError, match=r"the chunk bytes/c/3 is missing"):
        store.read(3)
    with pytest.raises(IndexError, match="has 50 documents, got row 50"):
        store.read(50)


def test_damage_is_seen(tmp_path: Path) -> None:
    store = write(tmp_path / "t", TEXTS)
    assert verify(tmp_path / "t") == []
    chunk = tmp_path / "t" / "bytes" / "c" / "0"
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 1
    chunk.write_bytes(content)
    assert len(verify(tmp_path / "t")) == 1
    with pytest.raises(DamagedStoreError, match=r"bytes\[0:5\] of .* is damaged"):
        store.read(1)


def test_a_writer_that_fails_leaves_the_older_store(tmp_path: Path) -> None:
    write(tmp_path / "t", ["first"])
    with (
        pytest.raises(InputError, match=r"the text of document 1 must be UTF-8"),
        TextWriter(tmp_path / "t", "") as writer,
    ):
        writer.append([b"second", b"\xff"])
    assert TextStore.open(tmp_path / "t").read(0) == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def test_it_is_told_from_other_stores(tmp_path: Path) -> None:
    write(tmp_path / "t", TEXTS)
    facts = describe(tmp_path / "t")
    assert (facts["kind"], facts["format"]) == ("texts", "atd-dask-texts/1")
    assert facts["documents"] == len(TEXTS)
    assert facts["text_bytes"] == sum(len(text.encode()) for text in TEXTS)
    with pytest.raises(InputError, match="must be a corpus store, but it is a texts store"):
        CorpusStore.open(tmp_path / "t")


def test_memory_does_not_grow_with_the_texts(tmp_path: Path) -> None:
    import tracemalloc

    peaks = []
    for n_docs in (40, 160):
        text = np.random.default_rng(1).integers(97, 123, 2**17, dtype=np.uint8).tobytes()
        tracemalloc.start()
        with TextWriter(tmp_path / str(n_docs), "") as writer:
            for _ in range(n_docs):
                writer.append([text])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]
