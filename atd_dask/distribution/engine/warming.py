"""Compiles kernels early.

The kernels of detection take as long to compile as those of training. While one worker compiles and
trains, another can compile what comes next; others find it in the disk cache. Workers that are
threads of one process compile one after another, so separate processes compile for them.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from atd_dask.kernels.jit import STORE

if TYPE_CHECKING:
    from distributed import Client


@contextmanager
def compile_early(client: Client, rehearsal: Callable[[], object]) -> Iterator[None]:
    """Have an idle worker compile the kernels during the block; if none is, it is not done."""
    key = rehearsal.__name__.replace("_", "-")
    compiling = client.submit(rehearsal, key=key, priority=-1)
    try:
        yield
    finally:
        # Else it would be done when the job ends, and Dask warn that its result is lost.
        compiling.release()


@contextmanager
def compile_apart(*rehearsals: Callable[[], object]) -> Iterator[bool]:
    """Compile the kernels in other processes, one for each rehearsal, if the cache is empty; yield
    whether they do. They end no later than the block."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        if sys.executable and STORE.is_empty():
            with suppress(OSError):  # Python could not be started
                processes += map(_start, rehearsals)
        yield bool(processes)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _start(rehearsal: Callable[[], object]) -> subprocess.Popen[bytes]:
    # It must find the same modules as this process.
    program = (
        "import sys; sys.path[:] = sys.argv[1:]\n"
        f"from {rehearsal.__module__} import {rehearsal.__name__} as rehearse\n"
        "rehearse()"
    )
    return subprocess.Popen(
        [sys.executable, "-c", program, *sys.path],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
