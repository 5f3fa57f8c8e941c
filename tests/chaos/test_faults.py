"""A few faults; `python -m tests.chaos --only faults` tries all of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.chaos.faults import (
    AGAIN,
    ROOT,
    Case,
    Faults,
    can_mount,
    judge_end,
    judge_resumed,
    list_cases,
    prepared,
)
from tests.chaos.jobs import Job
from tests.chaos.outcomes import HANG, LOST, REFUSED, SAME, TRACEBACK, WRONG
from tests.clusters import wait_for

pytest.importorskip("s3fs", reason="needs the extra s3")


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faults]:
    with prepared(tmp_path_factory.mktemp("faults")) as made:
        yield made


@pytest.mark.parametrize(
    ("case", "outcome", "sentence"),
    [
        (Case("client killed", "detect", "external", "disk"), REFUSED, "killed"),
        (Case("one worker killed", "train", "external", "disk"), SAME, ""),
        (Case("scheduler killed", "ingest", "external", "disk"), REFUSED, "scheduler was lost"),
        pytest.param(
            *(Case("store gone", "train", "external", "S3"), REFUSED, "check that it is up, then"),
            marks=pytest.mark.long,
        ),
        pytest.param(
            *(Case("disk full", "detect", "external", "disk"), REFUSED, "no space is left on the"),
            marks=pytest.mark.long,
        ),
    ],
    ids=lambda case: case.fault if isinstance(case, Case) else None,
)
def test_a_fault_loses_nothing(faults: Faults, case: Case, outcome: str, sentence: str) -> None:
    if case.fault == "disk full" and not can_mount():
        pytest.skip("needs the right to mount a disk")
    met, why = faults.try_case(case)
    assert met == outcome, why
    assert sentence in why


# Where Dask's own logs once stood beside our sentence.
TOLD_BY_DASK = [
    *(Case(AGAIN, stage, "local", "disk") for stage in ("ingest", "train", "sweep")),
    Case("disk full", "train", "local", "disk"),
    *(Case(f"store {mode}", "train", "local", "S3") for mode in ("gone", "erroring", "silent")),
]


@pytest.mark.long
@pytest.mark.parametrize("case", TOLD_BY_DASK, ids=lambda case: f"{case.fault}, {case.stage}")
def test_on_a_local_cluster_a_fault_is_one_sentence_at_most(faults: Faults, case: Case) -> None:
    if case.fault == "disk full" and not can_mount():
        pytest.skip("needs the right to mount a disk")
    met, why = faults.try_case(case)
    assert met in (SAME, REFUSED), why


@pytest.mark.parametrize(
    ("end", "failed", "results", "outcome"),
    [
        (REFUSED, "", "as ever", REFUSED),
        (TRACEBACK, "", "as ever", TRACEBACK),
        (TRACEBACK, "", "others", WRONG),
        (HANG, "", "others", WRONG),
        (HANG, "no space", "as ever", LOST),
    ],
)
def test_results_are_compared_however_a_job_ended(
    end: str, failed: str, results: str, outcome: str, tmp_path: Path
) -> None:
    job = Job(tmp_path, "run", "", lambda name: results.encode())
    expected = Job(tmp_path, "run", "", lambda name: b"as ever").read_results()
    met, why = judge_resumed((end, "why it ended"), failed, job, expected)
    assert met == outcome
    assert "why it ended" in why
    assert failed in why


def test_a_line_that_is_not_ours_is_bad_even_if_a_job_ends_well(tmp_path: Path) -> None:
    job = Job(tmp_path, "run", "", lambda name: b"")
    job.log.write_text('{"level": "info"}\n')
    assert judge_end(0, job) == (SAME, "")
    job.log.write_text('{"level": "info"}\ndistributed.core - ERROR - gone\n')
    met, why = judge_end(0, job)
    assert met == TRACEBACK
    assert "distributed.core" in why


STARTS_A_SCHEDULER = """
import sys, time
from pathlib import Path
from tests.chaos.jobs import Cluster, prepare_forks

prepare_forks({})
cluster = Cluster(Path(sys.argv[1]))
cluster.start_scheduler()
print(cluster.processes[0].pid, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs a signal that only Linux sends")
def test_clusters_end_with_the_program_that_started_them(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTS_A_SCHEDULER, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        scheduler = int(program.stdout.readline())
        assert is_running(scheduler)
        program.kill()
    wait_for(lambda: not is_running(scheduler))


def is_running(pid: int) -> bool:
    """Whether there is such a process; a zombie is none."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_cases_begin_with_each_fault_in_each_stage() -> None:
    cases = list_cases()
    pairs = {(case.fault, case.stage) for case in cases}
    assert {(case.fault, case.stage) for case in cases[: len(pairs)]} == pairs
    assert len(set(cases)) == len(cases)
