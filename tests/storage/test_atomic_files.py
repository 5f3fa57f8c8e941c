from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from atd_dask.storage.atomic_files import join, read_file, write_file


@pytest.mark.parametrize(
    ("base", "joined"),
    [
        ("runs/reuters", "runs/reuters/a/b"),
        ("runs/reuters/", "runs/reuters/a/b"),
        ("s3://bucket/run/", "s3://bucket/run/a/b"),
    ],
)
def test_names_are_joined(base: str, joined: str) -> None:
    assert join(base, "a", "b") == joined


@pytest.mark.parametrize("kind", ["local", "file", "memory"])
def test_what_was_written_is_read(tmp_path: Path, kind: str) -> None:
    base = {
        "local": str(tmp_path),
        "file": f"file://{tmp_path}",
        "memory": f"memory://{tmp_path.name}",
    }[kind]
    url = join(base, "below", "folders", "a.bin")
    assert read_file(url) is None
    write_file(url, b"old")
    assert read_file(url) == b"old"
    write_file(url, b"\0new\n")
    assert read_file(url) == b"\0new\n"
    assert read_file(join(base, "below", "folders")) is None


def test_nothing_but_the_file_is_left(tmp_path: Path) -> None:
    write_file(str(tmp_path / "a"), b"1")
    write_file(str(tmp_path / "a"), b"2")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(str(tmp_path / "a"), b"old")

    def fail(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        write_file(str(tmp_path / "a"), b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"old"}


WRITER = """
import os, sys, time

def hang(handle):
    print("written, not in its place", flush=True)
    time.sleep(60)

os.fsync = hang
from atd_dask.storage.atomic_files import write_file
write_file(sys.argv[1], b"new" * 10**6)
"""


def test_a_killed_writer_leaves_the_old_file(tmp_path: Path) -> None:
    url = str(tmp_path / "a")
    write_file(url, b"old")
    with subprocess.Popen([sys.executable, "-c", WRITER, url], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"written, not in its place\n"
        writer.kill()
    assert read_file(url) == b"old"
    write_file(url, b"newer")
    assert read_file(url) == b"newer"
