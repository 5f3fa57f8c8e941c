"""Measures resource usage: wall-clock time, CPU time and memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

from atd_dask.evaluation.comparison import Spread

if TYPE_CHECKING:
    from atd_dask.config.run_config import RunConfig
    from atd_dask.distribution.engine.clients import Client
    from atd_dask.progress import Progress
    from atd_dask.storage.stage_notes import CorpusSummary

    # The stage of the pipelines.
    Ingest = Callable[[RunConfig, Client, Progress], CorpusSummary]


# A row of a printed table: a value for each column.
Row: TypeAlias = dict[str, str | int | float]

SECONDS_BETWEEN_LOOKS = 0.1  # at the memory
LOOKS_BETWEEN_COUNTS = 10  # of the processes: the system lists all that it has


@dataclass
class Usage:
    """The resources used by this process and its children."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_bytes: int = 0
    own_cpu_seconds: float = 0.0  # of this process alone: the client, and a local scheduler


@contextmanager
def measure() -> Iterator[Usage]:
    """Measure the block, including children that have ended; the usage is filled in at its end.

    The thread that watches the memory is not counted.
    """
    import psutil

    usage = Usage()
    me = psutil.Process()

    def family() -> list[Any]:
        return [me, *me.children(recursive=True)]

    def cpu_seconds(processes: Sequence[Any]) -> float:
        total = 0.0
        for process in processes:
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            total += times.user + times.system + times.children_user + times.children_system
        return total

    def own_seconds() -> float:
        times = me.cpu_times()
        return float(times.user + times.system)

    ended = threading.Event()
    watched = 0.0

    def watch() -> None:
        nonlocal watched
        for number in count():  # at least one look, however short the block is
            if number % LOOKS_BETWEEN_COUNTS == 0:
                processes = family()
            total = 0
            for process in processes:
                try:
                    total += process.memory_info().rss
                except psutil.Error:
                    continue
            usage.peak_bytes = max(usage.peak_bytes, total)
            watched = time.thread_time()
            if ended.wait(SECONDS_BETWEEN_LOOKS):
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    start, start_cpu, start_own = time.perf_counter(), cpu_seconds(family()), own_seconds()
    try:
        yield usage
    finally:
        usage.seconds = time.perf_counter() - start
        ended.set()
        watcher.join()
        own = own_seconds() - start_own
        usage.own_cpu_seconds = max(own - watched, 0.0)  # the system counts in coarser steps
        usage.cpu_seconds = cpu_seconds(family()) - start_cpu - own + usage.own_cpu_seconds


def spread(values: Sequence[float], digits: int = 3) -> str:
    """Format the mean of several runs, with the range if there is one."""
    return Spread.of(values).show(digits)
