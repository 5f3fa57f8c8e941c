"""Commands and clusters, in processes that are forked from one with everything imported."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import dask
import s3fs  # noqa: F401
from distributed.cli import dask_scheduler, dask_worker

import atd_dask.pipelines.run
import atd_dask.pipelines.sweep  # noqa: F401
from atd_dask.cli.command import main
from tests.chaos.points import install
from tests.clusters import CALM


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
    dask.config.set({**CALM, "distributed.scheduler.worker-ttl": f"{worker_ttl:g}s"})
    options = ["--no-dashboard", "--host", "127.0.0.1", "--port", "0"]
    _run(dask_scheduler.main, "dask-scheduler", [*options, "--scheduler-file", str(file)])


def run_worker(file: Path) -> None:
    """Run a worker of that scheduler."""
    _enter(file.parent)
    dask.config.set(CALM)
    options = ["--no-dashboard", "--nthreads", "1", "--no-nanny"]
    _run(dask_worker.main, "dask-worker", [*options, "--scheduler-file", str(file)])


PR_SET_PDEATHSIG = 1  # from sys/prctl.h


def end_with_program() -> None:
    """End when the program that runs the tests ends, even if that is killed.

    The parent of this process is a server that all such processes are forked from. It lives as long
    as one of them, so whichever notices first kills it, and then the system kills the others, even
    those that are stopped.
    """
    program, server = multiprocessing.parent_process(), os.getppid()
    assert program is not None
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    def watch() -> None:
        program.join()
        os.kill(server, signal.SIGKILL)
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def _enter(folder: Path, log: Path | str = os.devnull) -> None:
    end_with_program()
    os.setsid()
    os.chdir(folder)
    for target, number in ((os.devnull, 1), (log, 2)):
        os.dup2(os.open(target, os.O_WRONLY | os.O_APPEND), number)


def _run(program: Callable[[], object], name: str, arguments: list[str]) -> None:
    sys.argv = [name, *arguments]
    program()
