"""The resources that work uses, including child processes."""

from __future__ import annotations

import subprocess
import sys

from atd_dask.bench.usage import measure, spread

WORK = "x = bytearray(50_000_000); sum(range(3_000_000)); input()"


def test_children_count_while_they_run() -> None:
    with measure() as usage:
        child = subprocess.Popen([sys.executable, "-c", WORK], stdin=subprocess.PIPE)
        assert child.stdin is not None
        child.communicate(b"\n")
    assert usage.seconds > 0
    assert usage.cpu_seconds > 0
    assert usage.peak_bytes > 0


def test_the_range_is_shown_if_there_is_one() -> None:
    assert spread([1.0, 2.0, 3.0], 1) == "2.0 (1.0 to 3.0)"
    assert spread([2.0, 2.0], 1) == "2.0"
