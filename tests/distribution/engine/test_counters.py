"""Counters of real processes, and the file of a process that has no port."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from atd_dask.distribution.counting import count_shards
from atd_dask.distribution.engine import counters
from atd_dask.distribution.engine.counters import count, count_nothing, keep_counts, read_counts
from atd_dask.distribution.rehearsal import compile_detection
from atd_dask.errors import UserError
from atd_dask.text import readers
from atd_dask.text.options import Source, TextOptions
from tests.clusters import local_client

pytest.importorskip("prometheus_client", reason="needs the extra metrics")


def keep(path: Path, job: str, **amounts: int) -> list[str]:
    """A job that counts; returns its warnings."""
    warnings: list[str] = []
    with keep_counts(str(path), job, warnings.append):
        count(**amounts)
    return warnings


def read(path: Path) -> dict[str, float]:
    from prometheus_client.parser import text_string_to_metric_families

    return {
        f"{sample.name} {sample.labels['job_name']}": sample.value
        for family in text_string_to_metric_families(path.read_text())
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def test_counters_rise_by_what_was_done():
    before = read_counts()
    count(replicates=25, alarms=1)
    count(replicates=25)
    with count_nothing():
        count(replicates=25)
    rise = {name: number - before[name] for name, number in read_counts().items()}
    assert rise == dict.fromkeys(counters.MEANINGS, 0) | {"replicates": 50, "alarms": 1}


def test_warming_is_not_work():
    before = read_counts()
    assert compile_detection() == 1
    assert read_counts() == before


def test_a_worker_shows_the_documents_that_it_counts(tmp_path):
    lines = [json.dumps({"id": str(n), "text": "ships carry coffee"}) for n in range(7)]
    (tmp_path / "d.jsonl").write_text("\n".join(lines))
    shards = list(readers.shards(Source("jsonl", str(tmp_path / "d.jsonl")), TextOptions()))
    before = read_counts()
    with local_client(1, processes=True) as client:
        counted = list(count_shards(client, shards, TextOptions()))
        (worker,) = client.run(lambda dask_worker: dask_worker.http_server.port).values()
        with urllib.request.urlopen(f"http://127.0.0.1:{worker}/metrics", timeout=120) as answer:
            metrics = answer.read().decode()
    assert sum(len(piece.batch) for piece in counted) == 7
    assert "\natd_dask_documents_ingested_total 7.0\n" in metrics
    assert read_counts() == before, "each process counts what it does itself"


def test_a_file_is_added_to(tmp_path):
    path = tmp_path / "daily.prom"
    count(sweeps=7)  # of another job in this process
    assert keep(path, "daily", sweeps=1, alarms=2) == []
    first = read(path)
    assert keep(path, "daily", sweeps=1) == []
    second = read(path)
    last = "atd_dask_finished_timestamp_seconds daily"
    totals = {"atd_dask_sweeps_total daily": 2, "atd_dask_alarms_total daily": 2}
    assert second == totals | {last: second[last]}
    assert first[last] < second[last]
    assert list(tmp_path.iterdir()) == [path], "nothing else is left"


def test_a_job_that_breaks_off_says_no_new_time(tmp_path):
    path = tmp_path / "daily.prom"

    def fail() -> None:
        with keep_counts(str(path), "daily", pytest.fail):
            count(documents_ingested=3)
            raise KeyboardInterrupt("now")

    with pytest.raises(KeyboardInterrupt, match="now"):
        fail()
    assert read(path) == {"atd_dask_documents_ingested_total daily": 3}
    assert keep(path, "daily") == []
    finished = read(path)
    with pytest.raises(KeyboardInterrupt, match="now"):
        fail()
    assert read(path) == finished | {"atd_dask_documents_ingested_total daily": 6}


@pytest.mark.parametrize("content", [b"atd_dask_sweeps_total{", b"\xff\xfe\x00", b"a b c d"])
def test_a_file_that_is_something_else_is_left_alone(tmp_path, content):
    path = tmp_path / "daily.prom"
    path.write_bytes(content)
    (warning,) = keep(path, "daily", sweeps=1)
    assert warning.startswith(f"the counters in {path} could not be updated: ")
    assert path.read_bytes() == content


def test_a_place_where_no_file_can_be(tmp_path):
    (warning,) = keep(tmp_path / "none" / "daily.prom", "daily", sweeps=1)
    assert "No such file or directory" in warning


def test_without_the_package_nothing_is_counted():
    program = """
import sys
sys.modules["prometheus_client"] = None
from atd_dask.distribution.engine.counters import count, keep_counts, read_counts
count(sweeps=1)
assert read_counts() == {}
with keep_counts(None, "daily", print):
    count(sweeps=1)
try:
    with keep_counts("daily.prom", "daily", print):
        print("entered")
except ValueError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=True
    )
    assert done.stdout.startswith("--metrics-file needs the package prometheus-client: ")
    assert done.stdout.count("\n") == 1
    assert issubclass(UserError, ValueError)
