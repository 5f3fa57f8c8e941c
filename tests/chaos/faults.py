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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.chaos.damage import CONFIG, RESULTS
from tests.chaos.gate import Gate, gate_before
from tests.chaos.outcomes import HANG, LOST, REFUSED, SAME, TRACEBACK, WRONG, Tally
from tests.chaos.points import STAGES, hold_in, is_reached
from tests.pipelines import sweeping
from tests.pipelines.sweeping import make_documents, make_lines
from tests.s3 import serve_s3

ROOT = Path(__file__).parents[2]
START = "from tests.chaos.points import install; install();"
COMMAND = [sys.executable, "-c", f"{START} from atd_dask.cli.command import main; main()"]
SILENCE = 120.0  # seconds without a line
DEADLINE = 600.0  # seconds for one job
PATIENCE = 15.0  # seconds for which a job waits while nobody works for it
DISK = 64 * 2**20  # bytes of a disk that is filled

CLUSTERS, STORES = ("local", "external"), ("disk", "S3")
# Where each fault can happen.
FAULTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "client killed": (CLUSTERS, STORES),
    "one worker killed": (CLUSTERS, STORES),
    "all workers killed": (CLUSTERS, STORES),
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
    return [
        Case(fault, stage, cluster, store)
        for fault, (clusters, stores) in FAULTS.items()
        for store in stores
        for cluster in clusters
        for stage in STAGES
    ]


@dataclass
class Job:
    """What a case has started, and where it reads and writes."""

    folder: Path
    command: str
    home: str  # of the output
    environment: dict[str, str]
    read: Callable[[str], bytes]  # a file below its home
    is_external: bool = False
    cluster: list[subprocess.Popen[bytes]] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def start(self) -> None:
        chosen = f"local: {{workers: 2, threads: 1}}, worker_timeout: 10, patience: {PATIENCE}"
        if self.is_external:
            chosen = f"scheduler_file: {self.folder}/scheduler.json, patience: {PATIENCE}"
        command = [*COMMAND, self.command, "conf.yaml", "--output", f"{self.home}/out"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--log-format", "json", "--set", f"cluster={{{chosen}}}"],
                cwd=self.folder,
                env=os.environ | self.environment,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )

    def start_cluster(self) -> None:
        """A scheduler and two workers, unless they are there and well."""
        if self.cluster and all(_is_well(process) for process in self.cluster):
            return
        self.stop_cluster()
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
        self.cluster += [subprocess.Popen(worker, **options) for _ in range(2)]

    def stop_cluster(self) -> None:
        for process in self.cluster:
            process.kill()
            process.wait()
        self.cluster = []

    def stop(self) -> None:
        """Kills what is left of the command."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def follow(self) -> int:
        """Waits for the end of the command, which must say something now and then."""
        assert self.process is not None
        size, since = -1, time.monotonic()
        end = since + DEADLINE
        while self.process.poll() is None:
            now = self.log.stat().st_size
            if now != size:
                size, since = now, time.monotonic()
            if time.monotonic() > min(since + SILENCE, end):
                raise SilenceError(f"silent for {time.monotonic() - since:.0f} s: {self.tell()}")
            time.sleep(0.1)
        return self.process.returncode

    def tell(self) -> str:
        """The end of the log."""
        return self.log.read_text(errors="replace")[-300:]

    def list_workers(self) -> list[psutil.Process]:
        assert self.process is not None
        if self.is_external:
            return [psutil.Process(process.pid) for process in self.cluster[1:]]
        children = psutil.Process(self.process.pid).children(recursive=True)
        return [child for child in children if "spawn_main" in " ".join(child.cmdline())]

    def read_results(self) -> list[Any]:
        """What must be the same whatever happened."""
        if self.command == "run":
            return [self.read(f"out/{name}") for name in RESULTS]
        lines = [json.loads(line) for line in self.read("out/history.jsonl").splitlines()]
        for line in lines:
            for name in ("started", "seconds", "digest"):
                line.pop(name, None)
        return [lines, *(self.read(f"out/sweeps/0001/{name}") for name in RESULTS)]


class SilenceError(Exception):
    """A job has said nothing for too long, or does not end."""


def _is_well(process: subprocess.Popen[bytes]) -> bool:
    if process.poll() is not None:
        return False
    return bool(psutil.Process(process.pid).status() != psutil.STATUS_STOPPED)


def wait_until(condition: Callable[[], bool], seconds: float = 240.0) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


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

    def __init__(self, folder: Path, filesystem: Any, gate: Gate) -> None:
        self._folder, self._s3, self._gate = folder, filesystem, gate
        self._expected: dict[str, list[Any]] = {}
        self._number = 0

    def expect(self, command: str) -> list[Any]:
        """The results of a job that nothing disturbs."""
        if command not in self._expected:
            with self.prepare(command, "disk") as job:
                job.start()
                assert job.follow() == 0, job.tell()
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

        environment = {"PYTHONPATH": str(ROOT), "AWS_ENDPOINT_URL": self._gate.endpoint}
        job = Job(folder, command, home, environment, read)
        with mounted_disk(disk) if on_small_disk else nullcontext():
            try:
                yield job
            finally:
                job.stop()
                job.stop_cluster()

    def strike(self, fault: str, job: Job) -> None:
        """Does what is to go wrong."""
        assert job.process is not None
        if fault == "client killed":
            os.killpg(job.process.pid, signal.SIGKILL)
        elif fault == "scheduler killed":
            job.cluster[0].kill()
        elif fault == "disk full":
            fill(job.folder / "disk")
        elif fault.startswith("store "):
            self._gate.mode = fault.removeprefix("store ")  # type: ignore[assignment]
        else:
            workers = job.list_workers()
            for worker in workers[:1] if fault.startswith("one ") else workers:
                with suppress(psutil.NoSuchProcess):
                    worker.suspend() if fault.endswith("stopped") else worker.kill()

    def mend(self, job: Job) -> None:
        """Sets right what went wrong."""
        self._gate.mode = "open"
        (job.folder / "disk" / "filler").unlink(missing_ok=True)
        if job.is_external:
            job.start_cluster()

    def try_case(self, case: Case) -> tuple[str, str]:
        """What comes of a fault, and why."""
        command = "sweep" if case.stage == "sweep" else "run"
        expected = self.expect(command)
        with self.prepare(command, case.store, case.fault == "disk full") as job:
            point = job.folder / "point"
            job.environment |= hold_in(point, case.stage)
            job.is_external = case.cluster == "external"
            try:
                if job.is_external:
                    job.start_cluster()
                job.start()
                assert job.process is not None
                ended = job.process.poll
                if not wait_until(lambda: is_reached(point) or ended() is not None):
                    return HANG, f"the stage was not reached: {job.tell()}"
                if ended() is not None:
                    return LOST, f"ended before the fault: {job.tell()}"
                self.strike(case.fault, job)
                point.unlink()
                outcome, why = judge_end(job.follow(), job)
                if outcome not in (SAME, REFUSED):
                    return outcome, why
                self.mend(job)
                if outcome == SAME and job.read_results() != expected:
                    return WRONG, "another result"
                job.stop()
                job.start()
                if job.follow() != 0:
                    return LOST, job.tell()
                return (outcome, why) if job.read_results() == expected else (WRONG, "resumed")
            except SilenceError as error:
                return HANG, str(error)
            finally:
                self._gate.mode = "open"


def make_inputs(command: str) -> tuple[dict[str, str], str]:
    """The documents by their paths, and the configuration."""
    normal = {"normal.jsonl": make_lines(make_documents("normal", 120))}
    batch = make_lines(make_documents("batch", 30, 6))
    if command == "run":
        config = CONFIG.replace("topics: 2", "topics: {max: 4, min: 2}")
        return normal | {"batch.jsonl": batch}, config
    return normal | {"repository/1.jsonl": batch}, sweeping.CONFIG


def judge_end(status: int, job: Job) -> tuple[str, str]:
    """Whether a job ended as one may: well, killed, or with one sentence of ours."""
    told = job.log.read_text(errors="replace")
    if "Traceback" in told:
        return TRACEBACK, told[-2000:]
    if status == 0:
        return SAME, ""
    if status == -signal.SIGKILL:
        return REFUSED, "killed"
    try:
        lines = [json.loads(line) for line in told.splitlines()]
    except ValueError:
        return TRACEBACK, told[-2000:]
    errors = [str(line["facts"]["message"]) for line in lines if line["level"] == "error"]
    if len(errors) != 1 or lines[-1]["level"] != "error":
        return TRACEBACK, str(errors)
    is_ours = not errors[0].partition(":")[0].endswith(("Error", "Exception"))
    return (REFUSED if is_ours else TRACEBACK), errors[0]


def try_cases(folder: Path, cases: list[Case], tally: Tally) -> None:
    """Tries some cases, and says what came of each."""
    with serve_s3() as filesystem:
        host, port = os.environ["AWS_ENDPOINT_URL"].removeprefix("http://").split(":")
        with gate_before(host, int(port)) as gate:
            faults = Faults(folder, filesystem, gate)
            may_mount = can_mount()
            for case in cases:
                if case.fault == "disk full" and not may_mount:
                    print(f"{case.kind}, {case.stage}: not tried, needs the right to mount")
                    continue
                start = time.monotonic()
                outcome, why = faults.try_case(case)
                tally.add(case.kind, outcome, case.stage, why)
                seconds = time.monotonic() - start
                print(f"{case.kind}, {case.stage}: {outcome}, {seconds:.0f} s: {why}", flush=True)
