from __future__ import annotations

from pathlib import Path

import pytest

from atd_dask.cache import cache_folder


def test_the_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATD_DASK_CACHE", "/a/b")
    assert cache_folder() == Path("/a/b")
    monkeypatch.delenv("ATD_DASK_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    assert cache_folder() == Path("/c/atd-dask")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert cache_folder() == Path("/home/someone/.cache/atd-dask")
