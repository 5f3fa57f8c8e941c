"""Many detections on one cluster: memory, handles and threads must stay flat."""

from __future__ import annotations

import gc
from dataclasses import dataclass

import psutil

import atd_dask
from atd_dask.config.cluster_options import ClusterOptions, LocalOptions
from atd_dask.distribution.engine.clients import connect
from tests.chaos.outcomes import SAME, WRONG, Tally
from tests.pipelines.sweeping import make_documents

SETTINGS = {
    "null_model": {"topics": 2},
    "corpus": {"text": {"stop_words": "none", "stemmer": "none"}},
    "detection": {
        "seeds": 3,
        "membership": {"replicates": 20},
        "significance": {"replicates": 20, "level": 0.05, "searches": 3},
    },
}
# Dask keeps logs of a bounded length, of events, transitions, computations and spans; they and our
# caches are full after this many detections.
WARM_UP = 40
MOST_GROWTH = 20 * 2**20  # bytes from then on, whatever the number of detections
MOST_HANDLES = 10


@dataclass(frozen=True)
class Usage:
    """What this process holds, which runs the client and the scheduler, and what the larger worker
    holds."""

    memory: int
    worker_memory: int
    handles: int
    threads: int

    @classmethod
    def now(cls) -> Usage:
        gc.collect()
        process = psutil.Process()
        workers = [child.memory_info().rss for child in process.children(recursive=True)]
        return cls(
            process.memory_info().rss, max(workers), process.num_fds(), process.num_threads()
        )

    def __str__(self) -> str:
        mebibytes = f"{self.memory / 2**20:.0f} MiB, worker {self.worker_memory / 2**20:.0f} MiB"
        return f"{mebibytes}, {self.handles} handles, {self.threads} threads"


def soak(n_detections: int, tally: Tally) -> None:
    """Run one detection after another, and compare what is held after the warm-up with the end."""
    normal = [document["text"] for document in make_documents("normal", 80)]
    batch = [document["text"] for document in make_documents("batch", 24, 6)]
    used: list[Usage] = []
    with connect(ClusterOptions(local=LocalOptions(2, 1))) as client:
        for number in range(1, n_detections + 1):
            atd_dask.find(normal, batch, settings=SETTINGS, client=client, progress=False)
            if number % 10 == 0:
                usage = Usage.now()
                print(f"soak, {number} detections: {usage}", flush=True)
                used += [usage] if number >= WARM_UP else []
    outcome = SAME if is_flat(used) else WRONG
    for number in range(1, n_detections + 1):
        tally.add("soak", outcome, f"detection {number}", f"{used[:1]}{used[-1:]}")


def is_flat(used: list[Usage]) -> bool:
    if len(used) < 2:
        return True
    first, last = used[0], used[-1]
    return (
        last.memory - first.memory <= MOST_GROWTH
        and last.worker_memory - first.worker_memory <= MOST_GROWTH
        and last.handles - first.handles <= MOST_HANDLES
        and last.threads - first.threads <= MOST_HANDLES
    )
