"""Many detections on one client: its memory and its handles must stay where they are."""

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
WARM_UP = 20  # detections after which all caches are filled
MOST_GROWTH = 20 * 2**20  # bytes over the rest, whatever their number
MOST_HANDLES = 10


@dataclass(frozen=True)
class Usage:
    """What this process holds."""

    memory: int
    handles: int
    threads: int

    @classmethod
    def now(cls) -> Usage:
        gc.collect()
        process = psutil.Process()
        return cls(process.memory_info().rss, process.num_fds(), process.num_threads())


def soak(n_detections: int, tally: Tally) -> list[Usage]:
    """Detects again and again; gives what this process held after each tenth."""
    normal = [document["text"] for document in make_documents("normal", 80)]
    batch = [document["text"] for document in make_documents("batch", 24, 6)]
    used: list[Usage] = []
    with connect(ClusterOptions(local=LocalOptions(2, 1))) as client:
        for number in range(n_detections):
            atd_dask.find(normal, batch, settings=SETTINGS, client=client, progress=False)
            if number >= WARM_UP and number % 10 == 0:
                used.append(Usage.now())
                print(f"{number} detections: {used[-1]}", flush=True)
    for which, usage in zip(("first", "middle", "last"), choose_three(used), strict=False):
        print(f"soak, {which}: {usage}", flush=True)
    flat = is_flat(used)
    for number in range(n_detections):
        tally.add("soak", SAME if flat else WRONG, f"detection {number}", f"{used[:1]}{used[-1:]}")
    return used


def choose_three(used: list[Usage]) -> list[Usage]:
    return [used[at] for at in (0, len(used) // 2, -1)] if used else []


def is_flat(used: list[Usage]) -> bool:
    if len(used) < 2:
        return True
    first, last = used[0], used[-1]
    return (
        last.memory - first.memory <= MOST_GROWTH
        and last.handles - first.handles <= MOST_HANDLES
        and last.threads - first.threads <= MOST_HANDLES
    )
