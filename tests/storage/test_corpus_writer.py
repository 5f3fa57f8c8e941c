from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atd_dask.documents import CountBatch
from atd_dask.errors import InputError
from atd_dask.storage import corpus_writer
from atd_dask.storage.corpus import KIND, VERSION, CorpusStore
from atd_dask.storage.corpus_writer import CorpusWriter
from atd_dask.storage.groups import SealedGroup
from atd_dask.storage.verification import verify
from tests.storage.corpora import WORDS, random_counts, write_corpus

SOUND = CountBatch(
    ["a", "b", "c"],
    [(), ("x",), ()],
    np.array([0, 2, 2, 3], dtype=np.int64),
    np.array([0, 3, 1], dtype=np.int32),
    np.array([1, 2, 3], dtype=np.int32),
)

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"terms": [0, 8, 1]}, r"number of every word must be below 8, got 8 \(document 'a'\)"),
    ({"terms": [0, 3, -1]}, r"number of every word must be below 8, got -1 \(document 'c'\)"),
    ({"terms": [3, 0, 1]}, r"must occur once and in ascending order, got 0 \(document 'a'\)"),
    ({"terms": [3, 3, 1]}, r"must occur once and in ascending order, got 3 \(document 'a'\)"),
    ({"counts": [1, 2, 0]}, r"must be from 1 to 2147483647, got 0 \(document 'c'\)"),
    ({"counts": [1, 2**31, 1]}, r"must be from 1 to 2147483647, got 2147483648 \(document 'a'\)"),
    ({"counts": [1.5, 2.0, 1.0]}, "must be integers, got float64"),
    ({"counts": [1, 2]}, "a count for every word, got 4, and 2 for 3"),
    ({"indptr": [0, 2, 3]}, "must have 4 row ends .*, got 3, and 3 for 3"),
    ({"indptr": [1, 2, 2, 3]}, "must ascend from 0 to its 3 entries, got 1 to 3"),
    ({"indptr": [0, 2, 2, 2]}, "must ascend from 0 to its 3 entries, got 0 to 2"),
    ({"indptr": [0, 2, 1, 3]}, "must ascend from 0 to its 3 entries"),
    ({"labels": [(), ()]}, "a batch of 3 documents has labels for 2"),
    ({"labels": [(), ("a\tb",), ()]}, r"a character and no tab, got 'a\\tb'"),
    ({"labels": [(), ("",), ()]}, "a character and no tab, got ''"),
    ({"labels": [(), ("\ud800",), ()]}, r"every label must be text that UTF-8 can hold"),
    ({"ids": ["a", "b", "\ud800"]}, r"every id must be text that UTF-8 can hold, got '\\ud800'"),
]


def broken(change: dict[str, Any]) -> CountBatch:
    arrays = {"indptr", "terms", "counts"}
    changes = {name: np.array(v) if name in arrays else v for name, v in change.items()}
    return replace(SOUND, **changes)


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_a_wrong_batch_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message), CorpusWriter(tmp_path / "c", WORDS) as writer:
        writer.append(broken(change))
    assert list(tmp_path.iterdir()) == []


def test_unseen_counts_are_checked_too(tmp_path: Path) -> None:
    with (
        pytest.raises(
            InputError, match=r"every unseen word must be below 2, got 3 \(document 'a'\)"
        ),
        CorpusWriter(tmp_path / "c", WORDS, ["y", "z"]) as writer,
    ):
        writer.append(SOUND, SOUND)
    with (
        pytest.raises(InputError, match="a batch of 3 documents must have 4 row ends"),
        CorpusWriter(tmp_path / "c", WORDS, WORDS) as writer,
    ):
        writer.append(SOUND, random_counts(1, 2, 2))


def test_a_refused_batch_leaves_no_trace_in_the_store(tmp_path: Path) -> None:
    for name, with_mistake in (("a", False), ("b", True)):
        with CorpusWriter(tmp_path / name, WORDS) as writer:
            writer.append(SOUND)
            if with_mistake:
                for change, message in WRONG:
                    with pytest.raises(InputError, match=message):
                        writer.append(broken(change))
            writer.append(SOUND)
    assert CorpusStore.open(tmp_path / "a").digest == CorpusStore.open(tmp_path / "b").digest


def test_words_must_be_different_and_text() -> None:
    with pytest.raises(InputError, match="vocabulary must not hold a word twice, got 'b'"):
        CorpusWriter("memory://never", ["a", "b", "c", "b"])
    with pytest.raises(InputError, match="unseen words must not hold a word twice, got 'b'"):
        CorpusWriter("memory://never", [], ["b", "b"])
    with pytest.raises(InputError, match=r"every word must be text .* got '\\udc80'"):
        CorpusWriter("memory://never", ["\udc80"])


def test_sums_may_pass_the_range_of_a_count(tmp_path: Path) -> None:
    large = np.full(3, 2**31 - 1, dtype=np.int32)
    with CorpusWriter(tmp_path / "c", WORDS) as writer:
        writer.append(replace(SOUND, counts=large))
    store = CorpusStore.open(tmp_path / "c")
    assert store.lengths().tolist() == [2 * (2**31 - 1), 0, 2**31 - 1]
    assert store.n_tokens == 3 * (2**31 - 1)


def test_narrow_row_ends_do_not_limit_the_corpus(tmp_path: Path) -> None:
    with CorpusWriter(tmp_path / "c", WORDS) as writer:
        writer.append(SOUND)
        writer._counts.n_entries = 2**31 - 1
        writer.append(replace(SOUND, indptr=SOUND.indptr.astype(np.int32)))
    group = SealedGroup.open(tmp_path / "c", KIND, VERSION)
    assert group.read("X/indptr", 4, 7).tolist() == [2**31 + 1, 2**31 + 1, 2**31 + 2]


def test_attributes_may_be_completed_until_the_end(tmp_path: Path) -> None:
    with CorpusWriter(tmp_path / "c", WORDS, attributes={"seed": 1}) as writer:
        writer.append(SOUND)
        writer.attributes["skipped"] = {"empty": 2}
    assert CorpusStore.open(tmp_path / "c").attributes == {"seed": 1, "skipped": {"empty": 2}}


def append_and_fail(writer: CorpusWriter) -> None:
    writer.append(SOUND)
    raise RuntimeError("reader failed")


def test_a_failure_leaves_the_old_store(tmp_path: Path) -> None:
    old = write_corpus(tmp_path / "c").digest
    with (
        pytest.raises(RuntimeError, match="reader failed"),
        CorpusWriter(tmp_path / "c", WORDS) as writer,
    ):
        append_and_fail(writer)
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
    assert CorpusStore.open(tmp_path / "c").digest == old
    assert verify(tmp_path / "c") == []


def test_a_failure_at_the_very_end_leaves_the_old_store(tmp_path: Path) -> None:
    old = write_corpus(tmp_path / "c").digest
    with (
        pytest.raises(TypeError, match="not JSON serializable"),
        CorpusWriter(tmp_path / "c", WORDS, attributes={"bad": object()}) as writer,
    ):
        writer.append(SOUND)
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
    assert CorpusStore.open(tmp_path / "c").digest == old


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(InputError, match="file/c cannot be used"),
        CorpusWriter(tmp_path / "file" / "c", WORDS),
    ):
        pass


DIE = """
    import os, signal, sys
    from pathlib import Path
    from atd_dask.storage import corpus_writer, groups, locations
    from tests.storage.corpora import write_corpus

    corpus_writer.CHUNK_ENTRIES = 16

    def die(*arguments):
        os.kill(os.getpid(), signal.SIGKILL)

    calls = 0
    def die_at(number, function):
        def call(*arguments, **options):
            global calls
            calls += 1
            return die() if calls == number else function(*arguments, **options)
        return call

    {patch}
    write_corpus(sys.argv[1], seed=2, n_docs=500)
"""

DEATHS = {
    "among the chunks": "groups.ArrayStream._write = die_at(9, groups.ArrayStream._write)",
    "before the manifest": "groups.Manifest = die",
    "before the move": "Path.rename = die_at(1, Path.rename)",
    "in the middle of the move": "Path.rename = die_at(2, Path.rename)",
    "after the move": "locations.Partial._unlock = die",
}


@pytest.mark.parametrize("moment", DEATHS)
def test_a_killed_writer_leaves_a_whole_store_or_none(tmp_path: Path, moment: str) -> None:
    old = write_corpus(tmp_path / "c", seed=1).digest
    code = textwrap.dedent(DIE).format(patch=DEATHS[moment])
    died = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "c"], cwd=Path(__file__).parents[2]
    )
    assert died.returncode == -signal.SIGKILL
    left = sorted(path.name for path in tmp_path.iterdir())
    assert any(name.startswith(".c.partial-") for name in left)
    if moment == "in the middle of the move":
        with pytest.raises(InputError, match="there is no store at"):
            CorpusStore.open(tmp_path / "c")
    else:
        assert (CorpusStore.open(tmp_path / "c").digest == old) == (moment != "after the move")
        assert verify(tmp_path / "c") == []
    write_corpus(tmp_path / "c", seed=3)
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
    assert verify(tmp_path / "c") == []


def test_an_unfinished_store_does_not_open(tmp_path: Path) -> None:
    with CorpusWriter(tmp_path / "c", WORDS) as writer:
        writer.append(SOUND)
        (partial,) = tmp_path.iterdir()
        with pytest.raises(InputError, match="not a finished store, its writing was interrupted"):
            CorpusStore.open(partial)


def test_memory_does_not_grow_with_the_corpus(tmp_path: Path) -> None:
    size, n_entries = 4_000, 60
    terms = np.tile(np.arange(n_entries, dtype=np.int32), size)
    indptr = np.arange(0, len(terms) + 1, n_entries, dtype=np.int64)
    ids = [f"document {number:09}" for number in range(size)]
    counts = np.ones(len(terms), dtype=np.int32)
    batch = CountBatch(ids, [("label",)] * size, indptr, terms, counts)
    tracemalloc.start()
    try:
        with CorpusWriter(tmp_path / "c", [str(number) for number in range(n_entries)]) as writer:
            for _ in range(25):
                writer.append(batch)
        written = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        assert verify(tmp_path / "c") == []
        verified = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    store = CorpusStore.open(tmp_path / "c")
    assert (store.n_docs, store.n_entries) == (100_000, 6_000_000)
    assert written < 32e6  # its entries alone are 48 MB
    assert verified < 8e6


def test_the_sizes_of_chunks_and_blocks_belong_to_the_format(tmp_path: Path) -> None:
    import zarr

    store = write_corpus(tmp_path / "c", n_docs=2**14 + 1)
    assert store.block_starts.tolist() == [0, 2**14, 2**14 + 1]
    group = zarr.open_group(tmp_path / "c", mode="r")
    sizes = {name: array.chunks[0] for name, array in group["X"].arrays()}
    assert sizes == {"data": 2**17, "indices": 2**17, "indptr": 2**14}
    assert corpus_writer.BLOCK_ENTRIES == 2**17
