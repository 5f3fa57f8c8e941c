"""Real clusters for tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import dask
from distributed import Client, LocalCluster

# By default, Dask's schedulers and workers look at themselves many times a second, which takes a
# tenth of a CPU.
CALM = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
}


@contextmanager
def local_client(workers: int = 2, threads: int = 1, processes: bool = False) -> Iterator[Client]:
    with (
        LocalCluster(
            n_workers=workers,
            threads_per_worker=threads,
            processes=processes,
            dashboard_address="127.0.0.1:0",
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@contextmanager
def calm_client() -> Iterator[Client]:
    """A client of one thread, for many small jobs."""
    with dask.config.set(CALM), local_client(1) as client:
        yield client


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds that another thread or process brings about."""
    deadline = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
