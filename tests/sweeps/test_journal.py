from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from atd_dask.errors import DamagedStoreError
from atd_dask.sweeps.journal import NO_KEYS, Journal, join_keys, make_key


def keys(first: int, last: int) -> np.ndarray:
    return join_keys([make_key(b"document", str(n).encode()) for n in range(first, last)])


def test_keys_are_told_apart() -> None:
    assert make_key(b"a", b"bc") != make_key(b"ab", b"c")
    assert len(join_keys([])) == 0


def test_what_was_added_is_seen_and_nothing_else(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path))
    assert not journal.contains(keys(0, 3)).any()
    n = 0
    for step in range(50):
        journal = journal.add(str(step), keys(n, n + 20))
        n += 20
        journal = Journal(journal.url, journal.segments)
    assert journal.contains(keys(0, n)).all()
    assert not journal.contains(keys(n, 2 * n)).any()
    assert sum(segment.keys for segment in journal.segments) == n
    # A segment is at least twice as large as the one after it, or nearly so.
    assert len(journal.segments) <= 8
    journal.tidy()
    assert len(list(tmp_path.iterdir())) == len(journal.segments)
    assert Journal(journal.url, journal.segments).contains(keys(0, n)).all()
    assert journal.add("none", NO_KEYS) is journal


def test_a_segment_that_nobody_names_does_not_count(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path)).add("1", keys(0, 10))
    journal.add("2", keys(10, 30))
    again = Journal(journal.url, journal.segments)
    assert again.contains(keys(0, 10)).all()
    assert not again.contains(keys(10, 30)).any()


def test_damage_is_told(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path)).add("1", keys(0, 10))
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamagedStoreError, match=r"the journal is damaged: .*1\.checkpoint is"):
        Journal(journal.url, journal.segments).contains(keys(0, 1))
