from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from atd_dask.bench import first_find
from atd_dask.cli.command import atd
from atd_dask.text.porter import stem

SMALL = ["bench", "find", "--normal", "100", "--batch", "20"]
NOTES_ITS_CACHE = """\
import os, json, sys
normal, batch = json.load(sys.stdin)
cold = not os.path.exists(os.environ["ATD_DASK_CACHE"])
os.makedirs(os.environ["ATD_DASK_CACHE"], exist_ok=True)
print("empty" if cold else "used", len(normal), len(batch))
"""


def test_strings_are_drawn_by_the_seed():
    normal, batch = first_find.draw_strings(200, 40)
    assert (len(normal), len(batch)) == (200, 40)
    assert (normal, batch) == first_find.draw_strings(200, 40)
    words = {word for text in normal + batch for word in text.split()}
    assert words == {stem(word) for word in words}
    new = {word for text in batch[-10:] for word in text.split()}
    assert not new <= {word for text in batch[:-10] for word in text.split()}


def test_every_cold_run_has_an_empty_cache(monkeypatch):
    monkeypatch.setattr(first_find, "SCRIPT", NOTES_ITS_CACHE)
    result = CliRunner().invoke(atd, [*SMALL, "--repeats", "2"])
    assert result.exit_code == 0, result.stderr
    header, cold, warm = result.stdout.rstrip("\n").split("\n")
    assert header.split() == ["what", "runs", "seconds", "cpu_seconds", "answer"]
    assert cold.split()[:2] == ["cold", "2"]
    assert cold.split()[-3:] == ["empty", "100", "20"]
    assert warm.split()[0] == "warm"
    assert warm.split()[-3:] == ["used", "100", "20"]


def test_a_script_that_fails_is_told(monkeypatch):
    monkeypatch.setattr(first_find, "SCRIPT", "import sys; sys.exit('no room')")
    result = CliRunner().invoke(atd, SMALL)
    assert result.exit_code == 1
    assert "the script failed: no room" in result.stderr


@pytest.mark.long
def test_the_planted_group_is_found():
    result = CliRunner().invoke(atd, ["bench", "find", "--repeats", "1"])
    assert result.exit_code == 0, result.stderr
    found = re.findall(r"One significant cluster was found in 500 documents: (\d+)", result.stdout)
    assert len(found) == 2
    assert all(18 <= int(size) <= 22 for size in found)  # 20 were planted
