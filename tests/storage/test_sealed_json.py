from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest

from atd_dask.errors import DamagedStoreError
from atd_dask.storage.sealed_json import read_sealed, write_sealed

VALUE = {"format": "x/1", "number": 12.5, "words": ["ä", "\ud800"], "none": None}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = str(tmp_path / "a.json")
    assert read_sealed(path) is None
    write_sealed(path, VALUE)
    assert read_sealed(path) == VALUE
    assert json.loads(Path(path).read_text())["number"] == 12.5


def test_every_changed_byte_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_sealed(str(path), VALUE)
    content = path.read_bytes()
    for at in range(len(content)):
        wrong = bytearray(content)
        wrong[at] ^= 1
        path.write_bytes(wrong)
        with suppress(DamagedStoreError):
            assert read_sealed(str(path)) == VALUE, "white space may change"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000, b"{}"])
def test_what_is_no_such_file_is_damaged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(DamagedStoreError, match="is not as it was written"):
        read_sealed(str(path))


def test_a_file_of_an_earlier_version_is_taken_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"a": 1}, indent=1))
    assert read_sealed(str(path)) == {"a": 1}
