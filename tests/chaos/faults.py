"""Faults in the middle of a job: at every stage, on a local and on an external cluster, with the
output on a disk and on an object store.

After a fault a job goes on, or ends with one sentence. Either way the same command, run again,
gives the result of a job that nothing disturbed. No job is silent for two minutes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import psutil

from tests.chaos.damage import CONFIG
from tests.chaos.outcomes import HANG, LOST, REFUSED, SAME, TRACEBACK, WRONG, Tally
from tests.pipelines.hold import count_kept, hold_after
from tests.pipelines.sweeping import make_documents, make_lines

COMMAND = [sys.executable, "-c", "from atd_dask.cli.command import main; main()"]
SILENCE = 120.0  # seconds without a line
DEADLINE = 600.0  # seconds for one job

STAGES = ("ingest", "train", "detect")
CLUSTERS = ("local", "external")
FAULTS = {
    "client killed": CLUSTERS,
    "workers killed": CLUSTERS,
    "workers stopped": CLUSTERS,
    "scheduler killed": ("external",),
}


@dataclass
class Processes:
    """What a case has started, and where."""

    folder: Path
    environment: dict[str, str]
    cluster: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def arguments(self) -> list[str]:
        if not self.cluster:
            return ["--set", "cluster={local: {workers: 1, threads: 1}, worker_timeout: 10}"]
        file = self.folder / "scheduler.json"
        return ["--set", f"cluster={{scheduler_file: {file}, patience: 40}}"]

    def start(self, log: IO[bytes], output: str) -> subprocess.Popen[bytes]:
        command = [*COMMAND, "run", "conf.yaml", "--output", output, "--log-format", "json"]
        return subprocess.Popen(
            [*command, *self.arguments],
            cwd=self.folder,
            env=os.environ | self.environment,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )

    def start_cluster(self) -> None:
        file = self.folder / "scheduler.json"
        file.unlink(missing_ok=True)
        environment = os.environ | self.environment
        environment["DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL"] = "10s"
        options: dict[str, Any] = {"cwd": self.folder, "env": environment}
        options |= {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
        scheduler += ["--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file)]
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--no-dashboard"]
        worker += ["--scheduler-file", str(file), "--nthreads", "1", "--no-nanny"]
        self.cluster = [subprocess.Popen(scheduler, **options)]
        wait_until(lambda: file.exists() and file.read_text().endswith("}"))
        self.cluster.append(subprocess.Popen(worker, **options))

    def stop_cluster(self) -> None:
        for process in self.cluster:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
        self.cluster = []


def wait_until(condition: Any, seconds: float = 240.0) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def list_workers(job: subprocess.Popen[bytes], processes: Processes) -> list[psutil.Process]:
    if processes.cluster:
        return [psutil.Process(processes.cluster[1].pid)]
    children = psutil.Process(job.pid).children(recursive=True)
    return [child for child in children if "spawn_main" in " ".join(child.cmdline())]


def strike(fault: str, job: subprocess.Popen[bytes], processes: Processes) -> None:
    """Does what is to go wrong."""
    if fault == "client killed":
        os.killpg(job.pid, signal.SIGKILL)
    elif fault == "scheduler killed":
        processes.cluster[0].kill()
    elif fault in ("workers killed", "workers stopped"):
        for worker in list_workers(job, processes):
            with suppress(psutil.Error):
                worker.kill() if fault == "workers killed" else worker.suspend()


class SilenceError(Exception):
    """A job has said nothing for too long, or does not end."""


def follow(job: subprocess.Popen[bytes], log: Path) -> int:
    """Waits for the end of a job, which must say something now and then."""
    size, since, end = -1, time.monotonic(), time.monotonic() + DEADLINE
    while job.poll() is None:
        now = log.stat().st_size
        if now != size:
            size, since = now, time.monotonic()
        if time.monotonic() - since > SILENCE or time.monotonic() > end:
            raise SilenceError(f"silent for {time.monotonic() - since:.0f} s")
        time.sleep(0.1)
    return job.returncode


@contextmanager
def prepared(folder: Path, cluster: str) -> Iterator[Processes]:
    (folder / "normal.jsonl").write_text(make_lines(make_documents("normal", 120)))
    (folder / "batch.jsonl").write_text(make_lines(make_documents("batch", 30, 6)))
    (folder / "conf.yaml").write_text(CONFIG.replace("topics: 2", "topics: {max: 4, min: 2}"))
    processes = Processes(folder, {})
    try:
        yield processes
    finally:
        processes.stop_cluster()


def run_undisturbed(folder: Path, output: str) -> None:
    """The result that every disturbed job must come to."""
    with prepared(folder, "local") as processes, (folder / "log").open("wb") as log:
        job = processes.start(log, output)
        assert follow(job, folder / "log") == 0, (folder / "log").read_text()


def try_fault(
    folder: Path, fault: str, stage: str, cluster: str, output: str, expected: bytes, read: Any
) -> tuple[str, str]:
    """What comes of a fault at a stage; `read` gives the result that is at the output."""
    held = stage != "ingest"
    with prepared(folder, cluster) as processes, ExitStack() as stack:
        if held:
            processes.environment = hold_after(folder / "hold", 1, stage)
        if cluster == "external":
            processes.start_cluster()
        log = stack.enter_context((folder / "log").open("wb"))
        job = processes.start(log, output)
        try:
            if held:
                met = wait_until(lambda: count_kept(folder / "hold") > 0 or job.poll() is not None)
            else:
                met = wait_until(lambda: b'"ingest"' in (folder / "log").read_bytes())
            if not met:
                return HANG, "the stage was never reached"
            strike(fault, job, processes)
            (folder / "hold").unlink(missing_ok=True)
            status = follow(job, folder / "log")
        except SilenceError as error:
            return HANG, str(error)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
            job.wait()
        told = (folder / "log").read_text(errors="replace")
        if "Traceback" in told:
            return TRACEBACK, told[-300:]
        outcome = SAME if status == 0 else REFUSED
        if status not in (0, -signal.SIGKILL) and not _is_sentence(told):
            return TRACEBACK, told[-300:]
        # The same command again, where nothing goes wrong.
        processes.stop_cluster()
        processes.environment = {}
        job = processes.start(log, output)
        try:
            if follow(job, folder / "log") != 0:
                return LOST, (folder / "log").read_text()[-300:]
        except SilenceError as error:
            os.killpg(job.pid, signal.SIGKILL)
            return HANG, str(error)
        return (outcome, "") if read() == expected else (WRONG, "another result")


def _is_sentence(told: str) -> bool:
    """Whether the last line says what went wrong, in words of ours."""
    try:
        last = json.loads(told.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return False
    message = str(last["facts"]["message"])
    return last["level"] == "error" and not message.split(":")[0].endswith("Error")


def list_cases() -> list[tuple[str, str, str]]:
    return [(f, s, c) for f, clusters in FAULTS.items() for s in STAGES for c in clusters]


def try_cases(folder: Path, cases: list[tuple[str, str, str]], tally: Tally) -> None:
    """Tries some cases with the output on the disk."""
    reference = folder / "reference"
    reference.mkdir()
    run_undisturbed(reference, str(reference / "out"))
    expected = (reference / "out" / "result.json").read_bytes()
    for number, (fault, stage, cluster) in enumerate(cases):
        place = folder / str(number)
        place.mkdir()
        path = place / "out" / "result.json"
        outcome, why = try_fault(
            place, fault, stage, cluster, str(place / "out"), expected, path.read_bytes
        )
        tally.add(f"{fault}, {cluster} cluster", outcome, f"{stage}", why)
