from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from atd_dask.errors import DamagedStoreError
from atd_dask.storage.checksums import NAME, read_checked, write_checked


def test_what_is_written_is_read_and_a_change_is_noticed(tmp_path: Path) -> None:
    path = str(tmp_path / "result.json")
    assert read_checked(path) is None
    write_checked(path, b"one\n")
    write_checked(str(tmp_path / "other.csv"), b"two\n")
    assert read_checked(path) == b"one\n"
    Path(path).write_bytes(b"One\n")
    with pytest.raises(DamagedStoreError, match=r"result\.json is not as it was written"):
        read_checked(path)
    assert read_checked(str(tmp_path / "other.csv")) == b"two\n"
    write_checked(path, b"three\n")
    assert read_checked(path) == b"three\n"


def test_a_file_that_is_not_listed_is_of_an_earlier_version(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_bytes(b"one\n")
    assert read_checked(str(tmp_path / "result.json")) == b"one\n"


@pytest.mark.parametrize("content", [b"", b"x", b"\xff\n", b"0" * 64 + b" a\n"])
def test_damaged_sums_are_noticed_and_written_again(tmp_path: Path, content: bytes) -> None:
    path = str(tmp_path / "a")
    write_checked(path, b"one\n")
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(DamagedStoreError, match="SHA256SUMS is not as it was written"):
        read_checked(path)
    write_checked(path, b"one\n")
    assert read_checked(path) == b"one\n"


@pytest.mark.skipif(not shutil.which("sha256sum"), reason="needs sha256sum")
def test_sha256sum_understands_them(tmp_path: Path) -> None:
    write_checked(str(tmp_path / "a b.json"), b"one\n")
    subprocess.run(["sha256sum", "--check", "--strict", NAME], cwd=tmp_path, check=True)
