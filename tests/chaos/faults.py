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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import psutil
from click.testing import CliRunner

from atd_dask.cli.command import atd
from tests.chaos.damage import CONFIG, RESULTS
from tests.chaos.gate import Gate, Mode, gate_before
from tests.chaos.outcomes import BAD, HANG, LOST, REFUSED, SAME, TRACEBACK, WRONG, Tally
from tests.chaos.points import STAGES, hold_in, is_reached, make_environment
from tests.clusters import local_client
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


class Cluster:
    """A scheduler and two workers, in processes of their own."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.file = folder / "scheduler.json"
        ttl = {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "10s"}
        self._options: dict[str, Any] = {"cwd": folder, "env": os.environ | environment | ttl}
        self._options |= {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Starts it again unless it is there and well."""
        if self.processes and all(_is_well(process) for process in self.processes):
            return
        self.stop()
        self.file.unlink(missing_ok=True)
        scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
        scheduler += ["--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(self.file)]
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--no-dashboard"]
        worker += ["--scheduler-file", str(self.file), "--nthreads", "1", "--no-nanny"]
        self.processes = [subprocess.Popen(scheduler, **self._options)]
        wait_until(lambda: self.file.exists() and self.file.read_text().endswith("}"))
        self.processes += [subprocess.Popen(worker, **self._options) for _ in range(2)]

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        self.processes = []


@dataclass
class Job:
    """A command in a folder of its own, and where it writes."""

    folder: Path
    command: str
    home: str  # of the output
    read: Callable[[str], bytes]  # a file below its home
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def arguments(self) -> list[str]:
        return [self.command, f"{self.folder}/conf.yaml", "--output", f"{self.home}/out"]

    def start(self, cluster: str, environment: dict[str, str]) -> None:
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*COMMAND, *self.arguments, "--log-format", "json", "--set", f"cluster={cluster}"],
                cwd=self.folder,
                env=os.environ | environment,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )

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
        """Those of a cluster that the command itself has started."""
        assert self.process is not None
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

    def __init__(self, folder: Path, filesystem: Any, gate: Gate, scheduler: str) -> None:
        self._folder, self._s3, self._gate = folder, filesystem, gate
        self._scheduler = scheduler  # of a cluster that nothing happens to
        self._point = folder / "point"
        self._environment = make_environment(self._point) | {
            "PYTHONPATH": str(ROOT),
            "AWS_ENDPOINT_URL": gate.endpoint,
        }
        self.cluster = Cluster(folder, self._environment)
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
        assert job.process is not None
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
        cluster = f"local: {{workers: {n_workers}, threads: 1}}, worker_timeout: 10"
        if case.cluster == "external":
            self.cluster.start()
            cluster = f"scheduler_file: {self.cluster.file}"
        job.start(f"{{{cluster}, patience: {PATIENCE}}}", self._environment)
        assert job.process is not None
        ended = job.process.poll
        if not wait_until(lambda: is_reached(self._point) or ended() is not None):
            return HANG, f"the stage was not reached: {job.tell()}"
        if ended() is not None:
            return LOST, f"ended before the fault: {job.tell()}"
        self.strike(case, job)
        self._point.unlink()
        outcome, why = judge_end(job.follow(), job)
        self._gate.mode = "open"
        (job.folder / "disk" / "filler").unlink(missing_ok=True)
        if outcome == SAME and job.read_results() != expected:
            return WRONG, "another result"
        if outcome in BAD:
            return outcome, why
        job.stop()
        failed = self.resume(job)
        if failed:
            return LOST, failed
        return (outcome, why) if job.read_results() == expected else (WRONG, "after it resumed")


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


@contextmanager
def prepared(folder: Path) -> Iterator[Faults]:
    """All that cases need beside the jobs themselves."""
    with serve_s3() as filesystem, local_client(1) as client:
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
