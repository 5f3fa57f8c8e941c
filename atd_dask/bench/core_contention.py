"""Measures how much two cores slow each other down: what no program that uses both can avoid.

Two processes fit the same documents, with nothing sent between them: one of them alone, then both
at once, in turn. Cores that share caches, memory or a processor of the host are slower together.
"""

from __future__ import annotations

import tempfile
import time
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from atd_dask.bench.large_batch import Shape
from atd_dask.bench.training_passes import begin, iterate, read_into_memory, write_documents
from atd_dask.bench.usage import Row, spread
from atd_dask.storage.corpus import CorpusStore

if TYPE_CHECKING:
    from multiprocessing.queues import Queue
    from multiprocessing.synchronize import Barrier

    from atd_dask.progress import Progress

ROUNDS = 5
LIMIT = 600.0  # seconds that a process waits for the other


def bench_contention(n_docs: int, shape: Shape, progress: Progress) -> list[Row]:
    """Return the seconds of a fit by one process alone, by two at once, and the ratio."""
    processes = get_context("spawn")
    barrier, taken = processes.Barrier(2), processes.Queue()
    with tempfile.TemporaryDirectory(prefix="atd-dask-bench-") as folder:
        store = write_documents(Path(folder), n_docs, shape, progress)
        with progress.task(f"fit {n_docs:,} documents", ROUNDS) as task:
            both = [
                processes.Process(
                    target=fit_in_turn, args=(store, shape, first, barrier, taken), daemon=True
                )
                for first in (True, False)
            ]
            for process in both:
                process.start()
            rounds = []
            for _ in range(ROUNDS):
                alone, *together = (taken.get(timeout=LIMIT) for _ in range(3))
                rounds.append((alone, max(together)))
                task.advance()
            for process in both:
                process.join()
    alone, together = np.array(rounds).T
    return [
        {
            "documents": n_docs,
            "seconds of one process alone": spread(alone, 2),
            "of two at once": spread(together, 2),
            "efficiency": spread(alone / together, 2),
        }
    ]


def fit_in_turn(
    store: CorpusStore, shape: Shape, first: bool, barrier: Barrier, taken: Queue[float]
) -> None:
    """Fit all documents again and again: in every round the first process alone, then both."""
    passes = read_into_memory(store)
    shared, table, result = begin(passes, store, shape)
    table, result = iterate(passes, shared, table, result)

    def fit() -> None:
        start = time.perf_counter()
        iterate(passes, shared, table, result)
        taken.put(time.perf_counter() - start)

    for _ in range(ROUNDS):
        barrier.wait(LIMIT)
        if first:
            fit()
        barrier.wait(LIMIT)
        fit()
