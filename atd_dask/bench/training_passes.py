"""Measures passes of training over generated documents on a cluster: what a token costs, how much
is sent to the client, and how both grow with the number of documents.

The documents are those of `large_batch`, with nothing planted.
"""

from __future__ import annotations

import math
import pickle
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from atd_dask.bench.large_batch import Shape, write_part
from atd_dask.bench.usage import Row, Usage, measure
from atd_dask.config.cluster_options import ClusterOptions, LocalOptions
from atd_dask.distribution.block_passes import ClusterPasses
from atd_dask.distribution.engine.clients import connect
from atd_dask.distribution.engine.runner import Runner
from atd_dask.kernels.model import Block, Proportions, WordTable
from atd_dask.kernels.passes import Pass
from atd_dask.kernels.seeding import seed_topics
from atd_dask.kernels.statistics import ExpectedCounts
from atd_dask.kernels.training import CostTerms, improve_words, start_selection
from atd_dask.kernels.word_switches import SharedModel
from atd_dask.storage.corpus import CorpusStore

if TYPE_CHECKING:
    from atd_dask.distribution.engine.clients import Client
    from atd_dask.progress import Progress

ASSIGN_PASSES = 3  # passes before documents may have several topics
FIT_PASSES = 3  # passes that are measured; one before them compiles what is not compiled yet
WORKERS = 2


@dataclass(frozen=True)
class Measured:
    """The measured passes over one corpus."""

    n_docs: int
    n_tokens: int
    usage: Usage  # of all passes and processes
    bytes_received: int  # in a pass
    client_bytes: int  # of memory, at the end

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of a pass."""
        return self.usage.cpu_seconds / FIT_PASSES


def bench_passes(sizes: Sequence[int], shape: Shape, progress: Progress) -> list[Row]:
    """Return a row for each number of documents, with two workers of one thread. The exponent is
    that of CPU time as a power of the number of documents, compared with the row before."""
    options = ClusterOptions(local=LocalOptions(workers=WORKERS, threads=1))
    rows: list[Row] = []
    before: Measured | None = None
    with (
        tempfile.TemporaryDirectory(prefix="atd-dask-bench-") as folder,
        connect(options) as client,
    ):
        for n_docs in sorted(sizes):
            now = measure_passes(Path(folder, str(n_docs)), n_docs, shape, client, progress)
            rows.append(tabulate(now, before))
            before = now
    return rows


def tabulate(now: Measured, before: Measured | None) -> Row:
    exponent = ""
    if before is not None:
        more = math.log(now.cpu_seconds / before.cpu_seconds)
        exponent = f"{more / math.log(now.n_docs / before.n_docs):.2f}"
    return {
        "documents": now.n_docs,
        "tokens": now.n_tokens,
        "seconds per pass": f"{now.usage.seconds / FIT_PASSES:.2f}",
        "CPU seconds per pass": f"{now.cpu_seconds:.2f}",
        "tokens per CPU second": round(now.n_tokens / now.cpu_seconds),
        "bytes to the client per pass": now.bytes_received,
        "megabytes of the client": round(now.client_bytes / 1e6),
        "exponent": exponent,
    }


def measure_passes(
    folder: Path, n_docs: int, shape: Shape, client: Client, progress: Progress
) -> Measured:
    import psutil

    with progress.task(f"write {n_docs:,} documents", n_docs, "documents") as task:
        store = write_part(folder, "train", n_docs, np.zeros(0, np.int64), task.advance, shape)
    with (
        progress.task(f"train on {n_docs:,} documents", ASSIGN_PASSES + FIT_PASSES + 1) as task,
        ClusterPasses(Runner(client), store) as passes,
    ):
        shared = SharedModel.from_counts(passes.count_words())
        table = start_selection(shared, _seed(store, shape.n_topics)).table
        for _ in range(ASSIGN_PASSES):
            result = passes.assign(table)
            table = improve_words(result.expected, shared, None, CostTerms())
            task.advance()
        result = passes.assign(table)
        result = _fit(passes, table, result)
        task.advance()
        with measure() as usage:
            for _ in range(FIT_PASSES):
                table = improve_words(result.expected, shared, table, CostTerms())
                result = _fit(passes, table, result)
                task.advance()
        received = len(pickle.dumps(replace(result, proportions=Proportions.empty(0))))
        memory = psutil.Process().memory_info().rss
    return Measured(n_docs, int(store.lengths().sum()), usage, received, memory)


def _seed(store: CorpusStore, n_topics: int) -> ExpectedCounts:
    def read(document: int) -> Block:
        return store.rows(document, document + 1)

    return seed_topics(store.lengths(), read, store.n_words, n_topics, 1, 0)


def _fit(passes: ClusterPasses, table: WordTable, before: Pass) -> Pass:
    slope = 0.5 * table.specific_words() / np.maximum(before.expected.tokens, 1)
    return passes.fit(table, before.proportions, slope, before.anchors)
