"""The fuzz targets in short; `python -m tests.chaos` does the same at length."""

from __future__ import annotations

import pytest

from tests.chaos.fuzzing import FOUND, fuzz, make_targets

TARGETS = make_targets()


@pytest.mark.parametrize("name", TARGETS)
def test_bytes_of_any_kind_are_used_or_refused(name: str) -> None:
    tally = fuzz(name, TARGETS[name], 0, 60)
    assert tally.bad == []
    (counts,) = tally.counts.values()
    assert counts.total() == 60


def test_every_found_case_belongs_to_a_target() -> None:
    names = {name.replace("/", "-").replace("*", "all") for name in TARGETS}
    assert {folder.name for folder in FOUND.iterdir()} <= names
