from __future__ import annotations

from pathlib import Path

import pytest
from fsspec.registry import known_implementations

from atd_dask.config.inputs import find_input


def test_paths_start_at_the_folder(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.jsonl").write_text("")
    found = str(tmp_path / "data" / "a.jsonl")
    for path in ("data/a.jsonl", "./data/../data/a.jsonl", found, f"file://{found}"):
        assert find_input(path, tmp_path) == (found, None)
    assert find_input("data", tmp_path) == (str(tmp_path / "data"), None)


def test_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a").write_text("")
    assert find_input("~/a", Path("/nowhere")) == (str(tmp_path / "a"), None)


def test_missing_paths(tmp_path: Path) -> None:
    _, mistake = find_input("a.txt", tmp_path)
    assert mistake == f"an existing file or folder (looked for {tmp_path / 'a.txt'})"
    for path in ("x" * 5000, "~nobody-of-this-name/a", "a\0b"):
        _, mistake = find_input(path, tmp_path)
        assert mistake is not None


def test_globs(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "a.jsonl").write_text("")
    assert find_input("*/a*.jsonl", tmp_path) == (str(tmp_path / "*/a*.jsonl"), None)
    _, mistake = find_input("*/b*.jsonl", tmp_path)
    assert mistake is not None
    _, mistake = find_input("**x/b*.jsonl", tmp_path)
    assert mistake is not None


def test_urls(tmp_path: Path) -> None:
    for url in ("memory://a/b", "s3://bucket/a.jsonl", "zip://a.txt::memory://b.zip"):
        assert find_input(url, tmp_path) == (url, None)
    _, mistake = find_input("nothing://a", tmp_path)
    assert mistake == "a path or a URL with a protocol that fsspec knows"


def test_protocol_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {"class": "a_package_nobody_has.FileSystem", "err": "Install it to use it"}
    monkeypatch.setitem(known_implementations, "nobody", entry)
    _, mistake = find_input("nobody://a", tmp_path)
    assert mistake == "a path or a URL whose protocol is installed (Install it to use it)"
