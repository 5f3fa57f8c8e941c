"""Files are read once, hashed on the way, and counted as if they had been read line by line."""

from __future__ import annotations

import gzip
import io
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from distributed import Client
from fsspec.implementations.memory import MemoryFileSystem

from atd_dask.distribution.counting import hold_files, hold_shards
from atd_dask.distribution.engine.runner import Runner
from atd_dask.documents import Skipped
from atd_dask.errors import InputError
from atd_dask.text.counting import WordCounts
from atd_dask.text.options import Source, TextOptions
from atd_dask.text.readers import contents, find_endings, jsonl, pieces, ranges, shards
from atd_dask.text.readers.contents import Contents, Inputs
from atd_dask.text.readers.files import look_at_files
from tests.clusters import local_client

PLAIN = TextOptions(stemmer="none", max_bytes=400)


class CountingFileSystem(MemoryFileSystem):
    """Counts how often each byte of a file is read."""

    protocol = "counting"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    times: ClassVar[Counter[tuple[str, int]]] = Counter()

    @classmethod
    def _note(cls, path: str, start: int, size: int) -> None:
        cls.times.update((path, place) for place in range(start, start + size))

    def cat_file(self, path: str, start: int = 0, end: int | None = None, **options: Any) -> bytes:
        data: bytes = super().cat_file(path, start=start, end=end, **options)
        self._note(self._strip_protocol(path), start, len(data))
        return data

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        if mode != "rb":
            return super()._open(path, mode, **options)
        return _CountedFile(path, super().cat_file(path))


class _CountedFile(io.BytesIO):
    def __init__(self, path: str, data: bytes) -> None:
        super().__init__(data)
        self._path = path

    def read(self, size: int | None = -1, /) -> bytes:
        start = self.tell()
        data = super().read(size)
        CountingFileSystem._note(self._path, start, len(data))
        return data


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (contents, ranges):
        monkeypatch.setattr(module, "LEAF", 64)
    monkeypatch.setattr(jsonl, "PIECE", 256)
    monkeypatch.setattr(jsonl, "MOST_PIECES", 10**6)


@pytest.fixture
def folder() -> Iterator[str]:
    fsspec.register_implementation("counting", CountingFileSystem, clobber=True)
    CountingFileSystem.store.clear()
    yield "counting://folder"
    CountingFileSystem.store.clear()


def make_lines(n_lines: int) -> bytes:
    """Make documents with and without ids, empty lines, and lines that are skipped."""
    lines = []
    for n in range(n_lines):
        text = " ".join(f"word{'abcdefgh'[(n * k) % 8]}" for k in range(n % 9 + 1))
        record: dict[str, object] = {"text": text} if n % 3 else {"id": f"d{n}", "text": text}
        lines.append(json.dumps(record))
        if n % 11 == 5:
            lines += ["", "not JSON", json.dumps({"text": "long " * (n * 10)})]
    return "\n".join(lines).encode()


def write(folder: str, name: str, data: bytes) -> None:
    fs, root = fsspec.url_to_fs(folder)
    fs.pipe_file(f"{root}/{name}", gzip.compress(data) if name.endswith(".gz") else data)


def read(
    runner: Runner, source: Source
) -> tuple[list[tuple[str, ...]], list[Skipped], list[str], Inputs]:
    found = Contents()
    names, skipped, words = [], [], set()
    held = hold_files(runner, pieces(source, PLAIN, found), source, PLAIN, found)
    for handle, summary in held:
        counts: WordCounts = runner.fetch(handle)
        names.append(tuple(counts.batch.ids))
        skipped += list(summary.skipped)
        words |= set(summary.words)
    return names, skipped, sorted(words), found.finish()


def read_line_by_line(runner: Runner, source: Source) -> tuple[list[str], list[Skipped], list[str]]:
    names, skipped, words = [], [], set()
    for handle, summary in hold_shards(runner, shards(source, PLAIN), PLAIN):
        names += list(runner.fetch(handle).batch.ids)
        skipped += list(summary.skipped)
        words |= set(summary.words)
    return names, skipped, sorted(words)


def test_files_are_read_once_and_hashed_on_the_way(folder: str) -> None:
    write(folder, "a.jsonl", make_lines(200))
    write(folder, "b.jsonl", b"")
    write(folder, "c.jsonl", b'{"text": "a small file"}')
    write(folder, "d.jsonl.gz", make_lines(50))
    write(folder, "e.jsonl", make_lines(90) + b"\n")
    write(folder, "other.txt", b"not read at all")
    source = Source("jsonl", folder)
    wanted = read_line_by_line(Runner(), source)
    assert {skip.reason for skip in wanted[1]} >= {"not JSON", "larger than corpus.text.max_bytes"}
    with local_client(2) as client:
        for runner in (Runner(), Runner(client)):
            CountingFileSystem.times.clear()
            names, skipped, words, inputs = read(runner, source)
            times = CountingFileSystem.times
            fs, root = fsspec.url_to_fs(folder)
            n_bytes = sum(fs.size(f"{root}/{name}.jsonl") for name in "abce")
            n_bytes += fs.size(f"{root}/d.jsonl.gz")
            assert (len(times), set(times.values())) == (n_bytes, {1})
            assert len(names) > 20
            assert ([id for some in names for id in some], skipped, words) == wanted
            assert inputs == look_at_files(folder, lambda size: None, find_endings(source))


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_tables_are_read_once_and_hashed_on_the_way(folder: str, name: str) -> None:
    rows = "".join(f'd{n},"word{"x" * n}\nand more"\n' for n in range(40))
    write(folder, name, b"id,text\n" + rows.encode())
    source = Source("csv", folder)
    CountingFileSystem.times.clear()
    names, _, _, inputs = read(Runner(), source)
    assert set(CountingFileSystem.times.values()) == {1}
    assert [id for some in names for id in some] == [f"d{n}" for n in range(40)]
    assert inputs == look_at_files(folder, lambda size: None, find_endings(source))


def test_a_file_that_becomes_shorter_while_it_is_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(make_lines(200))
    found = Contents()
    source = Source("jsonl", str(path))
    held = hold_files(Runner(), pieces(source, PLAIN, found), source, PLAIN, found)
    next(held)
    path.write_bytes(make_lines(100))
    with pytest.raises(InputError, match=r"a\.jsonl must stay as it is while it is read"):
        list(held)


def test_a_lost_worker_s_ranges_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(make_lines(200))
    source = Source("jsonl", str(path))
    wanted = read_line_by_line(Runner(), source)[0]
    with local_client(2) as client:
        runner = Runner(client)
        found = Contents()
        held = hold_files(runner, pieces(source, PLAIN, found), source, PLAIN, found)
        handles = [handle for handle, _ in held]
        _end_one_worker(client)
        assert [id for one in handles for id in runner.fetch(one).batch.ids] == wanted
    assert found.finish() == look_at_files(str(path), lambda size: None)


def _end_one_worker(client: Client) -> None:
    cluster: Any = client.cluster
    cluster.sync(cluster.workers[0].close)
