"""Commands and clusters, in processes that are forked from one with everything imported."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import dask
import s3fs  # noqa: F401
from distributed.cli import dask_scheduler, dask_worker

import atd_dask.pipelines.run
import atd_dask.pipelines.sweep  # noqa: F401
from atd_dask.cli.command import main
from tests.chaos.points import install


def run_command(arguments: list[str], log: Path) -> None:
    """Run `atd-dask` in a session of its own; its messages go to a file."""
    _enter(log.parent, log)
    # Workers that are spawned from here must not import the program that runs the tests.
    this = sys.modules["__main__"]
    this.__spec__ = None
    this.__dict__.pop("__file__", None)
    install()
    _run(main, "atd-dask", arguments)


def run_scheduler(file: Path, worker_ttl: float) -> None:
    """Run a Dask scheduler, which gives up workers that are silent for so many seconds."""
    _enter(file.parent)
    dask.config.set({"distributed.scheduler.worker-ttl": f"{worker_ttl:g}s"})
    options = ["--no-dashboard", "--host", "127.0.0.1", "--port", "0"]
    _run(dask_scheduler.main, "dask-scheduler", [*options, "--scheduler-file", str(file)])


def run_worker(file: Path) -> None:
    """Run a worker of that scheduler."""
    _enter(file.parent)
    options = ["--no-dashboard", "--nthreads", "1", "--no-nanny"]
    _run(dask_worker.main, "dask-worker", [*options, "--scheduler-file", str(file)])


PR_SET_PDEATHSIG = 1  # from sys/prctl.h


def die_with_parent() -> None:
    """Make the system kill this process when its parent ends. The parent is the server that
    processes are forked from, which ends with the program that started it, even if that is
    killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == 1:
            sys.exit("the parent has ended")


def _enter(folder: Path, log: Path | str = os.devnull) -> None:
    die_with_parent()
    os.setsid()
    os.chdir(folder)
    for target, number in ((os.devnull, 1), (log, 2)):
        os.dup2(os.open(target, os.O_WRONLY | os.O_APPEND), number)


def _run(program: Callable[[], object], name: str, arguments: list[str]) -> None:
    sys.argv = [name, *arguments]
    program()
