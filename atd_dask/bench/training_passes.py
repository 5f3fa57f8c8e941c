"""Measures passes of training over generated documents: what a token costs on a cluster and in one
process, how much is sent to the client, how both grow with the number of documents, and whether the
model is the same everywhere.

The documents are those of `large_batch`, with nothing planted.
"""

from __future__ import annotations

import hashlib
import math
import os
import pickle
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from atd_dask.bench.large_batch import Shape, write_part
from atd_dask.bench.usage import Row, Usage, measure, spread
from atd_dask.config.cluster_options import ClusterOptions, LocalOptions
from atd_dask.distribution.block_passes import ClusterPasses
from atd_dask.distribution.engine.clients import connect
from atd_dask.distribution.engine.runner import Runner
from atd_dask.kernels.blocks import MemoryCorpus
from atd_dask.kernels.fitting import fit_and_divide
from atd_dask.kernels.model import Block, HeldTable, Proportions
from atd_dask.kernels.passes import (
    LocalPasses,
    NextWords,
    Pass,
    Passes,
    Start,
    fit_blocks,
    slope_topics,
)
from atd_dask.kernels.seeding import seed_topics
from atd_dask.kernels.statistics import ExpectedCounts, collect_block
from atd_dask.kernels.training import CostTerms, improve_words, start_selection
from atd_dask.kernels.word_switches import SharedModel
from atd_dask.storage.corpus import CorpusStore

if TYPE_CHECKING:
    from atd_dask.progress import Progress

ASSIGN_PASSES = 3  # passes before documents may have several topics
FIT_PASSES = 3  # passes that are measured; one before them compiles what is not compiled yet
SAME_PASSES = 2  # passes after which models are compared
SAME_WORKERS = (1, 2, 3)
SAMPLING_ROUNDS = 5
STEP_TRIALS = 3
COPIED_BYTES = 2**28
TERMS = CostTerms()


@dataclass(frozen=True)
class Measured:
    """The measured passes over one corpus."""

    n_docs: int
    n_workers: int
    n_tokens: int
    usage: Usage  # of all passes and processes
    bytes_received: int  # in a pass
    client_bytes: int  # of memory, at the end

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of a pass."""
        return self.usage.cpu_seconds / FIT_PASSES


def bench_passes(
    sizes: Sequence[int], workers: Sequence[int], shape: Shape, progress: Progress
) -> list[Row]:
    """Return a row for each number of workers of one thread, and of documents. The exponent is that
    of CPU time as a power of the number of documents, compared with the row before. The efficiency
    is that of several workers, compared with the last row of one and as many documents; cores that
    slow each other down lower it, but not the share of time in which workers are busy."""
    rows: list[Row] = []
    alone: dict[int, Measured] = {}
    with tempfile.TemporaryDirectory(prefix="atd-dask-bench-") as folder:
        stores = [
            (n_docs, write_documents(Path(folder, str(n_docs)), n_docs, shape, progress))
            for n_docs in sorted(sizes)
        ]
        for n_workers in workers:
            before: Measured | None = None
            for n_docs, store in stores:
                with _on_workers(n_workers, store) as passes:
                    usage, received, memory = measure_passes(passes, store, shape, progress)
                n_tokens = int(store.lengths().sum())
                now = Measured(n_docs, n_workers, n_tokens, usage, received, memory)
                rows.append(tabulate(now, before, alone.get(n_docs)))
                before = now
                if n_workers == 1:
                    alone[n_docs] = now
    return rows


def tabulate(now: Measured, before: Measured | None, alone: Measured | None = None) -> Row:
    exponent = ""
    if before is not None:
        more = math.log(now.cpu_seconds / before.cpu_seconds)
        exponent = f"{more / math.log(now.n_docs / before.n_docs):.2f}"
    busy = (now.usage.cpu_seconds - now.usage.own_cpu_seconds) / now.usage.seconds / now.n_workers
    efficiency = ""
    if alone is not None and now.n_workers > 1:
        efficiency = f"{alone.usage.seconds / now.usage.seconds / now.n_workers:.2f}"
    return {
        "documents": now.n_docs,
        "workers": now.n_workers,
        "tokens": now.n_tokens,
        "seconds per pass": f"{now.usage.seconds / FIT_PASSES:.2f}",
        "efficiency": efficiency,
        "workers are busy": f"{busy:.2f}",
        "CPU seconds per pass": f"{now.cpu_seconds:.2f}",
        "of them, client and scheduler": f"{now.usage.own_cpu_seconds / FIT_PASSES:.2f}",
        "tokens per CPU second": round(now.n_tokens / now.cpu_seconds),
        "bytes to the client per pass": now.bytes_received,
        "megabytes of the client": round(now.client_bytes / 1e6),
        "exponent": exponent,
    }


def measure_passes(
    passes: Passes, store: CorpusStore, shape: Shape, progress: Progress
) -> tuple[Usage, int, int]:
    """Return what fitting takes, the bytes that a pass sends to the client, and the memory of this
    process."""
    import psutil

    with progress.task(f"train on {store.n_docs:,} documents", FIT_PASSES + 1) as task:
        shared, table, result = begin(passes, store, shape)
        table, result = iterate(passes, shared, table, result)
        task.advance()
        with measure() as usage:
            for _ in range(FIT_PASSES):
                table, result = iterate(passes, shared, table, result)
                task.advance()
        sums = result.expected
        totals = (
            sums.tokens,
            sums.proportion,
            result.anchors,
            result.anchor_weights,
            result.n_specific,
        )
        received = len(pickle.dumps(totals))
    return usage, received, psutil.Process().memory_info().rss


def bench_same(n_docs: int, shape: Shape, progress: Progress) -> list[Row]:
    """Return the hash of the model after a few passes: without a cluster, with one, two and three
    workers, and with a worker killed in the middle of the last pass."""
    rows: list[Row] = []

    def add(what: str, passes: Passes, disturb: Callable[[float], None] | None = None) -> None:
        with progress.task(f"train {what}"):
            rows.append({"what": what, "model": _hash_model(passes, store, shape, disturb)})

    with tempfile.TemporaryDirectory(prefix="atd-dask-bench-") as folder:
        store = write_documents(Path(folder), n_docs, shape, progress)
        add("without a cluster", read_into_memory(store))
        for n_workers in SAME_WORKERS:
            with _on_workers(n_workers, store) as passes:
                add(f"{n_workers} workers" if n_workers > 1 else "1 worker", passes)
        with _on_workers(2, store) as passes:
            add("2 workers, one killed in a pass", passes, _kill_a_worker)
    return rows


def _hash_model(
    passes: Passes, store: CorpusStore, shape: Shape, disturb: Callable[[float], None] | None
) -> str:
    """Train for a few passes, with a disturbance in the last one; return the hash of the model."""
    shared, table, result = begin(passes, store, shape)
    for index in range(SAME_PASSES):
        start = time.perf_counter()
        table, result = iterate(passes, shared, table, result)
        if disturb is not None and index == SAME_PASSES - 2:
            disturb((time.perf_counter() - start) / 2)
    table = _next_words(shared, table).ask(result).read()
    content = hashlib.sha256(result.log_likelihood.hex().encode())
    for column in (table.indptr, table.topics, table.probabilities, result.expected.tokens):
        content.update(column.tobytes())
    return content.hexdigest()[:16]


def _kill_a_worker(seconds: float) -> None:
    """Kill a worker of the local cluster after so many seconds."""
    import psutil

    # Workers use more memory than the other processes that a cluster starts.
    children = psutil.Process().children(recursive=True)
    worker = max(children, key=lambda child: child.memory_info().rss)
    timer = threading.Timer(seconds, os.kill, (worker.pid, signal.SIGKILL))
    timer.daemon = True
    timer.start()


def bench_sampling(n_docs: int, shape: Shape, progress: Progress) -> list[Row]:
    """Compare a pass in this process with an iteration of tomotopy's Gibbs sampler, on one thread
    and in turn, since the speed of a machine changes from minute to minute."""
    with warnings.catch_warnings():
        # Its compiled types lack an attribute that Python expects.
        warnings.filterwarnings("ignore", "builtin type", DeprecationWarning)
        import tomotopy
    with tempfile.TemporaryDirectory(prefix="atd-dask-bench-") as folder:
        store = write_documents(Path(folder), n_docs, shape, progress)
        n_tokens = int(store.lengths().sum())
        passes = read_into_memory(store)
        shared, table, result = begin(passes, store, shape)
        model = tomotopy.LDAModel(k=shape.n_topics, seed=1)
        model.optim_interval = 0  # every tenth iteration would also optimise its priors
        rows = store.rows(0, store.n_docs)
        for first, last in zip(rows.indptr[:-1].tolist(), rows.indptr[1:].tolist(), strict=True):
            words = np.repeat(rows.terms[first:last], rows.counts[first:last])
            model.add_doc(list(map(str, words.tolist())))
    table, result = iterate(passes, shared, table, result)
    model.train(SAMPLING_ROUNDS, workers=1)  # its first iterations are slower
    ours, theirs = [], []
    with progress.task("a pass and an iteration, in turn", SAMPLING_ROUNDS) as task:
        for _ in range(SAMPLING_ROUNDS):
            start = time.process_time()
            table, result = iterate(passes, shared, table, result)
            middle = time.process_time()
            model.train(1, workers=1)
            theirs.append(time.process_time() - middle)
            ours.append(middle - start)
            task.advance()
    ratios = [other / mine for mine, other in zip(ours, theirs, strict=True)]
    return [
        {
            "what": what,
            "documents": n_docs,
            "CPU seconds": spread(taken, 2),
            "times as fast as tomotopy": spread(times, 2),
            "tokens per CPU second": round(n_tokens * len(taken) / sum(taken)),
        }
        for what, taken, times in (
            ("PTM, a fit pass with its update of the words", ours, ratios),
            ("tomotopy, an iteration", theirs, [1.0]),
        )
    ]


def bench_steps(n_docs: int, shape: Shape, progress: Progress) -> list[Row]:
    """Time the steps of a pass in this process, next to a copy of memory. A step reads what it is
    given and writes what it returns at least once: these are its bytes."""
    with tempfile.TemporaryDirectory(prefix="atd-dask-bench-") as folder:
        store = write_documents(Path(folder), n_docs, shape, progress)
        passes, n_entries = read_into_memory(store), store.n_entries
        shared, table, before = begin(passes, store, shape)
    table, before = iterate(passes, shared, table, before)
    words, blocks = table.read(), passes.blocks
    documents = blocks.documents
    rows: list[Row] = []

    def note(what: str, step: Callable[[], Any], *given: Any) -> Any:
        step()  # compiles what is not compiled yet
        seconds, result = [], None
        for _ in range(STEP_TRIALS):
            start = time.process_time()
            result = step()
            seconds.append(time.process_time() - start)
        n_bytes, taken = sum(map(_count_bytes, (*given, result))), sum(seconds) / STEP_TRIALS
        rows.append(
            {
                "what": what,
                "documents": n_docs,
                "CPU seconds": f"{taken:.3f}",
                "ns per entry": f"{1e9 * taken / n_entries:.1f}",
                "megabytes": round(n_bytes / 1e6),
                "gigabytes per CPU second": f"{n_bytes / taken / 1e9:.2f}",
            }
        )
        return result

    counts = before.expected
    assert isinstance(counts, ExpectedCounts)
    assert isinstance(before.proportions, Proportions)
    words = note(
        "update the words", lambda: counts.ask(improve_words, shared, words, TERMS), counts
    )
    slope = slope_topics(words, counts.tokens, lda=False)
    given = words, before.proportions, slope, before.anchors
    proportions, _ = note(
        "fit and collect", lambda: fit_blocks(blocks, *given, passes.bits), documents, words
    )
    free = np.full(shape.n_topics, -1)
    fit, divided = fit_and_divide(documents, words, proportions, slope, free)
    parts = divided.part(0, len(documents))
    note(
        "of that, collect",
        lambda: collect_block(documents, words, fit.proportions, parts, passes.bits),
        documents,
        parts,
    )
    values = np.arange(COPIED_BYTES // 8)
    note("copy of an array", values.copy, values)
    return rows


def _count_bytes(value: Any) -> int:
    """Return the bytes of arrays, and of what is made of them."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, (list, tuple)):
        return sum(map(_count_bytes, value))
    return sys.getsizeof(value)


def write_documents(folder: Path, n_docs: int, shape: Shape, progress: Progress) -> CorpusStore:
    with progress.task(f"write {n_docs:,} documents", n_docs, "documents") as task:
        return write_part(folder, "train", n_docs, np.zeros(0, np.int64), task.advance, shape)


@contextmanager
def _on_workers(n_workers: int, store: CorpusStore) -> Iterator[Passes]:
    options = ClusterOptions(local=LocalOptions(workers=n_workers, threads=1))
    with connect(options) as client, ClusterPasses(Runner(client), store) as passes:
        yield passes


def read_into_memory(store: CorpusStore) -> LocalPasses:
    return LocalPasses(MemoryCorpus.read(store))


def begin(passes: Passes, store: CorpusStore, shape: Shape) -> tuple[SharedModel, HeldTable, Pass]:
    """Return the shared model, and the words and the first fit after some rounds with one topic for
    each document."""

    def read(document: int) -> Block:
        return store.rows(document, document + 1)

    shared = SharedModel.from_counts(passes.count_words())
    seeds = seed_topics(store.lengths(), read, store.n_words, shape.n_topics, 1, 0)
    table = start_selection(shared, seeds).table
    for _ in range(ASSIGN_PASSES):
        result = passes.assign(table)
        table = result.expected.ask(improve_words, shared, table, TERMS, True)
    return shared, table, passes.assign(table)


def _next_words(shared: SharedModel, table: HeldTable) -> NextWords:
    return NextWords(improve_words, (shared, table, TERMS))


def iterate(
    passes: Passes, shared: SharedModel, table: HeldTable, before: Pass
) -> tuple[HeldTable, Pass]:
    """Update the words, then fit all documents."""
    table = _next_words(shared, table).ask(before)
    return table, passes.fit(table, Start.after(before), False, _next_words(shared, table))
