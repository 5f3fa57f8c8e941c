"""Commands in processes of their own, and clusters for them, which faults can happen to."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import psutil
from distributed import Client

from tests.chaos.damage import RESULTS

SILENCE = 120.0  # seconds without a line
DEADLINE = 600.0  # seconds for one job
WORKER_TIMEOUT = 30  # seconds of silence after which a worker is given up

# Clients and clusters are forked from a process that has imported what they need.
_FORKS = multiprocessing.get_context("forkserver")


def prepare_forks(environment: dict[str, str]) -> None:
    """Starts the process that clients are forked from; they inherit the environment."""
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        _FORKS.set_forkserver_preload(["tests.chaos.client"])
        forkserver.ensure_running()
    finally:
        os.environ.clear()
        os.environ.update(before)


class Cluster:
    """A scheduler and two workers, in processes of their own."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "scheduler.json"
        self.processes: list[Any] = []  # of multiprocessing

    def start(self) -> None:
        """Start it again unless all of it is alive and well."""
        from tests.chaos.client import run_worker

        if self.processes and all(_is_well(process) for process in self.processes):
            return
        self.stop()
        self.start_scheduler()
        for _ in range(2):
            self._fork(run_worker, self.file)
        with Client(scheduler_file=str(self.file), set_as_default=False) as client:
            client.wait_for_workers(2, timeout=240)

    def start_scheduler(self) -> None:
        from tests.chaos.client import run_scheduler

        self.file.unlink(missing_ok=True)
        self._fork(run_scheduler, self.file, WORKER_TIMEOUT)
        wait_until(lambda: self.file.exists() and self.file.read_text().endswith("}"))

    def _fork(self, target: Callable[..., None], *given: Any) -> None:
        process = _FORKS.Process(target=target, args=given)
        process.start()
        self.processes.append(process)

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.join()
        self.processes = []


@dataclass
class Job:
    """A command in a folder of its own, and where it writes."""

    folder: Path
    command: str
    home: str  # of the output
    read: Callable[[str], bytes]  # a file below its home
    process: Any = None  # of multiprocessing

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def arguments(self) -> list[str]:
        return [self.command, f"{self.folder}/conf.yaml", "--output", f"{self.home}/out"]

    def start(self, cluster: str) -> None:
        from tests.chaos.client import run_command

        self.log.touch()
        arguments = [*self.arguments, "--log-format", "json", "--set", f"cluster={cluster}"]
        self.process = _FORKS.Process(target=run_command, args=(arguments, self.log))
        self.process.start()

    def stop(self) -> None:
        """Kills what is left of the command."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.join()

    def follow(self) -> int:
        """Waits for the end of the command, which must say something now and then."""
        size, since = -1, time.monotonic()
        end = since + DEADLINE
        while self.process.is_alive():
            now = self.log.stat().st_size
            if now != size:
                size, since = now, time.monotonic()
            if time.monotonic() > min(since + SILENCE, end):
                raise SilenceError(f"silent for {time.monotonic() - since:.0f} s: {self.tell()}")
            time.sleep(0.1)
        return int(self.process.exitcode)

    def tell(self) -> str:
        """The end of the log."""
        return self.log.read_text(errors="replace")[-300:]

    def list_workers(self) -> list[psutil.Process]:
        """Those of a cluster that the command itself has started."""
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


def _is_well(process: Any) -> bool:
    if not process.is_alive():
        return False
    return bool(psutil.Process(process.pid).status() != psutil.STATUS_STOPPED)


def wait_until(condition: Callable[[], bool], seconds: float = 240.0) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
