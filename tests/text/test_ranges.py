from __future__ import annotations

from pathlib import Path

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atd_dask.errors import InputError
from atd_dask.text.readers import contents, ranges
from atd_dask.text.readers.files import File, split_lines
from atd_dask.text.readers.ranges import FileRange, cut_file, cut_lines, look_at_range

FILE = File("a.jsonl", "a.jsonl")


def read_lines(files: list[bytes], piece: int, max_bytes: int) -> list[tuple[int, bytes | None]]:
    """Return all lines with their numbers, from the ranges in which they begin."""
    looked = [
        (one, data[one.start : one.stop], look_at_range(data[one.start : one.stop]))
        for data in files
        for one in cut_file(FILE, len(data), piece)
    ]
    return [
        found
        for cut, data in cut_lines(looked, max_bytes)
        for found in enumerate(split_lines([cut.take(data)], max_bytes), cut.first_line)
    ]


TEXT = st.lists(st.text("ab", max_size=9), max_size=12).map(lambda lines: "\n".join(lines).encode())


def test_every_line_is_in_one_range_and_has_its_number() -> None:
    @given(st.lists(TEXT, max_size=3), st.integers(1, 12), st.integers(1, 20))
    def check(files: list[bytes], piece: int, max_bytes: int) -> None:
        wanted = [line for data in files for line in enumerate(split_lines([data], max_bytes), 1)]
        assert read_lines(files, piece, max_bytes) == wanted

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contents, "LEAF", 2)
        patch.setattr(ranges, "LEAF", 2)
        check()


def test_a_line_that_is_too_long_is_not_held() -> None:
    looked = [
        (FileRange(FILE, start, start + 100), None, look_at_range(b"x" * 100))
        for start in range(0, 1000, 100)
    ]
    ((cut, _),) = cut_lines(looked, 30)
    assert len(cut.tail) == 31


def test_ranges_are_read_from_any_file_system(tmp_path: Path) -> None:
    local = tmp_path / "a.jsonl"
    local.write_bytes(b"0123456789")
    with fsspec.open("memory://ranges/a.jsonl", "wb") as file:
        file.write(b"0123456789")
    for url in (str(local), "memory://ranges/a.jsonl"):
        assert FileRange(File(url, "a.jsonl"), 2, 5).read() == b"234"
        with pytest.raises(InputError, match=r"a\.jsonl must stay as it is while it is read"):
            FileRange(File(url, "a.jsonl"), 8, 12).read()
    with pytest.raises(InputError, match=r"b\.jsonl must exist to be read"):
        FileRange(File(str(tmp_path / "b.jsonl"), "b.jsonl"), 0, 1).read()


def test_a_server_that_knows_no_ranges_sends_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    def send_all(path: str, start: int, end: int) -> bytes:
        return b"0123456789"

    class Server:
        cat_file = staticmethod(send_all)

    monkeypatch.setattr(ranges, "open_filesystem", lambda url: (Server, url))
    assert FileRange(FILE, 2, 5).read() == b"234"
