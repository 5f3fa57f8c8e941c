"""Faults in the middle of a job: in every stage, on a local and on an external cluster, with files
on a disk and on an object store.

After a fault a job goes on, or ends with one sentence. Either way the same command, run again,
gives the result of a job that nothing disturbed. No job is silent for two minutes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import psutil
from click.testing import CliRunner

from atd_dask.cli.command import atd
from atd_dask.cli.stopping import STOPPED
from tests.chaos.damage import CONFIG, SWEEP_CONFIG
from tests.chaos.gate import Gate, Mode, gate_before
from tests.chaos.jobs import (
    DEADLINE,
    WORKER_TIMEOUT,
    Cluster,
    Job,
    SilenceError,
    prepare_forks,
    wait_until,
)
from tests.chaos.outcomes import HANG, LOST, REFUSED, SAME, TRACEBACK, WRONG, Tally
from tests.chaos.points import STAGES, hold_in, is_reached, make_environment
from tests.clusters import calm_client
from tests.pipelines import sweeping
from tests.pipelines.sweeping import make_documents, make_lines
from tests.s3 import serve_s3

ROOT = Path(__file__).parents[2]
# Seconds for which a job waits while nobody works for it: few where nobody will, and enough for a
# busy machine elsewhere.
HOPELESS, PATIENCE = 15.0, 240.0
# Of botocore, which by default waits a minute for an answer, five times; s3fs asks it five times.
HASTE = {
    "AWS_MAX_ATTEMPTS": "1",
    "FSSPEC_S3": json.dumps({"config_kwargs": {"connect_timeout": 4, "read_timeout": 4}}),
}
DISK = 64 * 2**20  # bytes of a disk that is filled

AGAIN, KILLS, SECONDS = "all workers killed 20 times in 45 s", 20, 45.0

CLUSTERS, STORES = ("local", "external"), ("disk", "S3")
# Where each fault can happen.
FAULTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "client killed": (CLUSTERS, STORES),
    "one worker killed": (CLUSTERS, STORES),
    "all workers killed": (CLUSTERS, STORES),
    AGAIN: (("local",), ("disk",)),
    "all workers stopped": (CLUSTERS, STORES),
    "scheduler killed": (("external",), STORES),
    "disk full": (CLUSTERS, ("disk",)),
    "store gone": (CLUSTERS, ("S3",)),
    "store erroring": (CLUSTERS, ("S3",)),
    "store silent": (CLUSTERS, ("S3",)),
}


@dataclass(frozen=True)
class Case:
    """A fault, and where it happens."""

    fault: str
    stage: str
    cluster: str
    store: str

    @property
    def kind(self) -> str:
        return f"{self.fault}, {self.cluster} cluster, {self.store}"


def list_cases() -> list[Case]:
    """All cases: first one of each fault, then one of each in each stage, on clusters and stores in
    turn, then the others."""
    ranked = []
    for first, (fault, (clusters, stores)) in enumerate(FAULTS.items()):
        around = [(cluster, store) for store in stores for cluster in clusters]
        for at, stage in enumerate(STAGES):
            for number, (cluster, store) in enumerate(around):
                rank = (number - at) % len(around), (at - first) % len(STAGES)
                ranked.append((rank, Case(fault, stage, cluster, store)))
    return [case for _, case in sorted(ranked, key=lambda it: it[0])]


@contextmanager
def mounted_disk(folder: Path) -> Iterator[None]:
    """A small disk at `folder`."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(folder)]
    subprocess.run(mount, check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def can_mount() -> bool:
    """Whether this user may mount a disk, which takes more than being root in a container."""
    with (
        tempfile.TemporaryDirectory() as folder,
        suppress(OSError, subprocess.SubprocessError),
        mounted_disk(Path(folder)),
    ):
        return True
    return False


def fill(disk: Path) -> None:
    """Leaves no byte free."""
    with suppress(OSError), (disk / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(2**12))


class Faults:
    """Prepares jobs, disturbs them, and compares what they give in the end."""

    def __init__(self, folder: Path, filesystem: Any, gate: Gate, scheduler: str) -> None:
        self._folder, self._s3, self._gate = folder, filesystem, gate
        self._scheduler = scheduler  # of a cluster that nothing happens to
        self._point = folder / "point"
        environment = make_environment(self._point) | {
            "PYTHONPATH": str(ROOT),
            "AWS_ENDPOINT_URL": gate.endpoint,
            **HASTE,
        }
        self.cluster = Cluster(folder)
        prepare_forks(environment)
        self._expected: dict[str, list[Any]] = {}
        self._number = 0

    def expect(self, command: str) -> list[Any]:
        """The results of a job that nothing disturbs."""
        if command not in self._expected:
            with self.prepare(command, "disk") as job:
                assert self.resume(job) == ""
                self._expected[command] = job.read_results()
        return self._expected[command]

    @contextmanager
    def prepare(self, command: str, store: str, on_small_disk: bool = False) -> Iterator[Job]:
        self._number += 1
        folder = self._folder / str(self._number)
        disk = folder / "disk"
        disk.mkdir(parents=True)
        documents, config = make_inputs(command)
        home = str(disk) if store == "disk" else f"s3://bucket/{folder.name}"
        if store == "S3":
            config = config.replace("path: ", f"path: {home}/")
        for name, content in documents.items():
            if store == "S3":
                self._s3.pipe_file(f"{home}/{name}", content.encode())
            else:
                (folder / name).parent.mkdir(exist_ok=True)
                (folder / name).write_text(content)
                sweeping.age(folder / name)
        (folder / "conf.yaml").write_text(config)

        def read(name: str) -> bytes:
            if store == "disk":
                return (disk / name).read_bytes()
            content: bytes = self._s3.cat_file(f"{home}/{name}")
            return content

        job = Job(folder, command, home, read)
        with mounted_disk(disk) if on_small_disk else nullcontext():
            try:
                yield job
            finally:
                job.stop()

    def strike(self, case: Case, job: Job) -> None:
        """Does what is to go wrong."""
        fault = case.fault
        if fault == "client killed":
            os.killpg(job.process.pid, signal.SIGKILL)
        elif fault == "scheduler killed":
            self.cluster.processes[0].kill()
        elif fault == "disk full":
            fill(job.folder / "disk")
        elif fault.startswith("store "):
            self._gate.mode = cast("Mode", fault.removeprefix("store "))
        else:
            workers = job.list_workers()
            if case.cluster == "external":
                workers = [psutil.Process(it.pid) for it in self.cluster.processes[1:]]
            for worker in workers[:1] if fault.startswith("one ") else workers:
                with suppress(psutil.NoSuchProcess):
                    worker.suspend() if fault.endswith("stopped") else worker.kill()

    def resume(self, job: Job) -> str:
        """Runs the command to its end where nothing goes wrong; what it said if it failed. It
        runs in this process, which takes a second where a new one takes ten."""

        def give_up(number: int, frame: object) -> None:
            raise SilenceError(f"no end after {DEADLINE:.0f} s")

        before = signal.signal(signal.SIGALRM, give_up)
        signal.setitimer(signal.ITIMER_REAL, DEADLINE)
        try:
            done = CliRunner().invoke(atd, [*job.arguments, "--scheduler", self._scheduler])
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        if done.exit_code > STOPPED:
            sys.exit(done.exit_code)  # whoever runs the tests wants them to end
        return "" if done.exit_code == 0 else done.output[-300:] or "no word"

    def try_case(self, case: Case) -> tuple[str, str]:
        """What comes of a fault, and why."""
        command = "sweep" if case.stage == "sweep" else "run"
        expected = self.expect(command)
        hold_in(self._point, case.stage)
        with self.prepare(command, case.store, case.fault == "disk full") as job:
            try:
                return self._try(case, job, expected)
            except SilenceError as error:
                return HANG, str(error)
            finally:
                self._point.unlink(missing_ok=True)
                self._gate.mode = "open"

    def _try(self, case: Case, job: Job, expected: list[Any]) -> tuple[str, str]:
        n_workers = 2 if case.fault.startswith("one ") else 1
        cluster = f"local: {{workers: {n_workers}, threads: 1}}, worker_timeout: {WORKER_TIMEOUT}"
        if case.cluster == "external":
            self.cluster.start()
            cluster = f"scheduler_file: {self.cluster.file}"
        patience = HOPELESS if case.fault.startswith("all ") else PATIENCE
        job.start(f"{{{cluster}, patience: {patience}}}")
        if not wait_until(lambda: is_reached(self._point) or not job.process.is_alive()):
            return HANG, f"the stage was not reached: {job.tell()}"
        if not job.process.is_alive():
            return LOST, f"ended before the fault: {job.tell()}"
        self.strike(case, job)
        self._point.unlink()
        for _ in range(KILLS - 1 if case.fault == AGAIN else 0):
            time.sleep(SECONDS / KILLS)
            if job.process.is_alive():
                self.strike(case, job)
        try:
            status = job.follow()
            end = judge_end(status, job)
        except SilenceError as error:
            status, end = None, (HANG, str(error))
        self._gate.mode = "open"
        (job.folder / "disk" / "filler").unlink(missing_ok=True)
        if status == 0 and job.read_results() != expected:
            return WRONG, "another result"
        job.stop()
        return judge_resumed(end, self.resume(job), job, expected)


def make_inputs(command: str) -> tuple[dict[str, str], str]:
    """The documents by their paths, and the configuration of a small job."""
    normal = {"normal.jsonl": make_lines(make_documents("normal", 80))}
    batch = make_lines(make_documents("batch", 24, 6))
    if command == "run":
        documents = normal | {"batch.jsonl": batch}
        config = CONFIG.replace("topics: 2", "topics: {max: 3, min: 2}")
    else:
        documents = normal | {"repository/1.jsonl": batch}
        config = SWEEP_CONFIG
    return documents, config


def judge_end(status: int, job: Job) -> tuple[str, str]:
    """Whether a job ended as one may: well, killed, or with one sentence of ours."""
    told = job.log.read_text(errors="replace")
    if "Traceback" in told:
        return TRACEBACK, told[-2000:]
    if status == -signal.SIGKILL:
        return REFUSED, "killed"
    try:
        lines = [json.loads(line) for line in told.splitlines()]
    except ValueError:  # a line that is not ours
        return TRACEBACK, told[-2000:]
    if status == 0:
        return SAME, ""
    errors = [str(line["facts"]["message"]) for line in lines if line["level"] == "error"]
    if len(errors) != 1 or lines[-1]["level"] != "error":
        return TRACEBACK, str(errors)
    is_ours = not errors[0].partition(":")[0].endswith(("Error", "Exception"))
    return (REFUSED if is_ours else TRACEBACK), errors[0]


def judge_resumed(
    end: tuple[str, str], failed: str, job: Job, expected: list[Any]
) -> tuple[str, str]:
    """What came of a case, after its job was resumed: however it ended before, nothing may be
    lost. `failed` is what the resumed job said if it failed."""
    told = f"after it ended with {': '.join(end)}"
    if failed:
        return LOST, f"{failed} {told}"
    return end if job.read_results() == expected else (WRONG, f"another result {told}")


@contextmanager
def prepared(folder: Path) -> Iterator[Faults]:
    """All that cases need beside the jobs themselves."""
    with serve_s3() as filesystem, calm_client() as client:
        host, port = os.environ["AWS_ENDPOINT_URL"].removeprefix("http://").split(":")
        with gate_before(host, int(port)) as gate:
            faults = Faults(folder, filesystem, gate, client.scheduler.address)
            try:
                yield faults
            finally:
                faults.cluster.stop()


def try_cases(folder: Path, cases: list[Case], tally: Tally) -> None:
    """Tries some cases, and says what came of each."""
    may_mount = can_mount()
    with prepared(folder) as faults:
        for case in cases:
            if case.fault == "disk full" and not may_mount:
                print(f"{case.kind}, {case.stage}: not tried, needs the right to mount a disk")
                continue
            start = time.monotonic()
            outcome, why = faults.try_case(case)
            tally.add(case.kind, outcome, case.stage, why)
            seconds = time.monotonic() - start
            print(f"{case.kind}, {case.stage}: {outcome}, {seconds:.0f} s: {why}", flush=True)
