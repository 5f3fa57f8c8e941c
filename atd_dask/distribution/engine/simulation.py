"""A cluster that only pretends to work: a real scheduler, and workers that share a few processes.

Its tasks sleep, so that hundreds of workers fit on a laptop, while the scheduler has as much to do
as with real ones.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atd_dask.distribution.engine.clients import load_dask
from atd_dask.errors import ClusterError

if TYPE_CHECKING:
    from distributed import Client

SECONDS_TO_START = 300.0

# With all workers in one process, its only thread of events would be busier than the scheduler.
PROCESSES = 4

# Workers share a process: none of them looks after it.
QUIET = {
    "distributed.admin.system-monitor.interval": "1h",
    "distributed.admin.tick.interval": "10s",
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
    "distributed.scheduler.worker-ttl": None,
}


@dataclass(frozen=True)
class Simulated:
    """A client of the cluster, and the process of its scheduler."""

    client: Client
    scheduler_pid: int

    def wait(self, result: Any, seconds: float) -> None:
        """Wait for a kept result, but not for ever."""
        try:
            result.result(timeout=seconds)
        except TimeoutError:
            raise ClusterError(
                f"a simulated cluster must be done in {seconds:g} s, and was not: simulate fewer"
                " workers, or give them fewer tasks"
            ) from None


@contextmanager
def simulate_cluster(n_workers: int) -> Iterator[Simulated]:
    """Start a cluster of `n_workers` single-threaded workers, and stop it at the end."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="atd-dask-"))
        file = Path(folder, "scheduler.json")
        arguments = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
        arguments += ["--idle-timeout", f"{4 * SECONDS_TO_START:g}s"]  # should nobody stop it
        scheduler = _start(
            stack,
            ["-m", "distributed.cli.dask_scheduler", *arguments, "--scheduler-file", str(file)],
        )
        end = time.monotonic() + SECONDS_TO_START
        while not file.exists() and scheduler.poll() is None and time.monotonic() < end:
            time.sleep(0.1)
        for first in range(min(PROCESSES, n_workers)):
            n_mine = len(range(first, n_workers, PROCESSES))
            code = f"from {__name__} import run_workers; run_workers({str(file)!r}, {n_mine})"
            _start(stack, ["-c", code])
        client = stack.enter_context(
            load_dask().Client(scheduler_file=str(file), set_as_default=False)
        )
        client.wait_for_workers(n_workers, timeout=SECONDS_TO_START)
        yield Simulated(client, scheduler.pid)


def _start(stack: ExitStack, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    def stop() -> None:
        process.kill()
        process.wait()

    stack.callback(stop)
    return process


def run_workers(scheduler_file: str, n_workers: int) -> None:
    """Run workers in this process until it is killed, or the process that started it is gone."""
    from dask import config

    parent = os.getppid()

    async def run() -> None:
        make: Any = load_dask().Worker
        workers = [
            make(scheduler_file=scheduler_file, nthreads=1, memory_limit=0, dashboard=False)
            for _ in range(n_workers)
        ]
        for start in range(0, n_workers, 20):
            await asyncio.gather(*workers[start : start + 20])
        while os.getppid() == parent:
            await asyncio.sleep(1)

    with config.set(QUIET):
        asyncio.run(run())
