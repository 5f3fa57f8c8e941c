"""Measures the search over numbers of topics: next to one that tries every number, and on several
threads.

Both searches start from the same topics with each seed, and run in this process, on one thread. The
search in strides is the one that a run does: on a sample first, if there are many documents, and
with splits of the best topics. The one that tries every number has none.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from atd_dask.bench.large_batch import Shape
from atd_dask.bench.training_passes import write_documents
from atd_dask.bench.training_quality import ingest_corpora, train_generated
from atd_dask.bench.usage import Row, Usage, measure, spread
from atd_dask.config.cluster_options import ClusterOptions, LocalOptions
from atd_dask.config.run_config import RunConfig, TopicsConfig
from atd_dask.distribution.engine.clients import connect
from atd_dask.distribution.engine.runner import run_on_workers
from atd_dask.distribution.training import SAMPLE_DOCUMENTS, Training, train_restarts
from atd_dask.kernels.blocks import Corpus
from atd_dask.kernels.model import Floats
from atd_dask.kernels.training import Convergence, OrderRange, SelectionState
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.run_layout import RunLayout

if TYPE_CHECKING:
    from atd_dask.bench.usage import Ingest
    from atd_dask.progress import Progress

THREADS = (1, 2)


@dataclass(frozen=True)
class Compared:
    """What is compared: the paper's corpora by their names, and generated documents."""

    names: Sequence[str]
    corpora: str | None  # a folder with these corpora, prepared
    sizes: Sequence[int]  # numbers of generated documents
    shape: Shape
    seeds: Sequence[int]


@dataclass
class PassCounter:
    """Counts the passes over all documents, one over a sample as its share of them, and the orders
    that are tried. It takes the place of checkpoints, which see every state of a search."""

    share: float  # of the documents that a sample has
    passes: float = 0.0
    orders: set[int] = field(default_factory=set)
    weight: float = 1.0
    whole: PassCounter | None = None  # what a sample is counted in

    def load(self, restart: int, shared: Floats) -> SelectionState | None:
        return None

    def keep(self, restart: int) -> Callable[[SelectionState], None]:
        counted = self.whole or self

        def keep(state: SelectionState) -> None:
            counted.passes += self.weight
            counted.orders.update(record.n_topics for record in state.records)

        return keep

    def of_sample(self) -> PassCounter:
        return PassCounter(self.share, weight=self.share, whole=self)


@dataclass(frozen=True)
class Searched:
    """What one search came to."""

    bic: float
    n_topics: int
    cpu_seconds: float
    passes: float
    n_orders: int


def bench_orders(asked: Compared, ingest: Ingest, progress: Progress) -> Iterator[list[Row]]:
    """Yield a table for each corpus: a row for each seed, and one for all of them."""
    with tempfile.TemporaryDirectory(prefix="atd-dask-bench-") as folder:
        configs: list[RunConfig] = []
        if asked.names:
            configs = ingest_corpora(asked.names, asked.corpora, folder, ingest, progress)
        train_generated()
        for config in configs:
            topics = config.null_model.topics
            yield compare_orders(config.name, _open(config), topics, asked.seeds, progress)
        for n_docs in asked.sizes:
            store = write_documents(Path(folder, str(n_docs)), n_docs, asked.shape, progress)
            n_topics = asked.shape.n_topics
            topics = TopicsConfig(max=2 * n_topics, min=max(n_topics // 2, 1))
            yield compare_orders(
                f"{n_docs:,} generated documents", store, topics, asked.seeds, progress
            )


def compare_orders(
    name: str, corpus: Corpus, topics: TopicsConfig, seeds: Sequence[int], progress: Progress
) -> list[Row]:
    """Search a corpus in strides and by every number, with each seed."""
    orders = _choose_orders(topics)
    pairs = []
    with progress.task(f"search the order of {name}", 2 * len(seeds), "searches") as task:
        for seed in seeds:
            training = Training(corpus, orders, Convergence(), seed)
            both = []
            for one in (training, replace(training, orders=replace(orders, every=True))):
                both.append(search(one))
                task.advance(seed=seed, topics=both[-1].n_topics, bic=f"{both[-1].bic:,.0f}")
            pairs.append((both[0], both[1]))
    return tabulate_orders(name, seeds, pairs)


def _choose_orders(topics: TopicsConfig) -> OrderRange:
    return OrderRange(topics.max, topics.min, topics.step, topics.limit if topics.widen else None)


def _open(config: RunConfig) -> Corpus:
    return CorpusStore.open(RunLayout(config.output).corpus("train")).without_copies()


def search(training: Training) -> Searched:
    """Train in this process, and count what that takes."""
    counter = PassCounter(min(SAMPLE_DOCUMENTS / max(training.corpus.n_docs, 1), 1.0))
    start = time.process_time()
    (end,) = train_restarts(training, 1, checkpointer=counter)
    seconds = time.process_time() - start
    best = min(end.records, key=lambda record: record.bic)
    return Searched(best.bic, best.n_topics, seconds, counter.passes, len(counter.orders))


def tabulate_orders(
    name: str, seeds: Sequence[int], pairs: Sequence[tuple[Searched, Searched]]
) -> list[Row]:
    """Make a row for each seed, and one with the mean and range of all. A difference above 0 says
    that the BIC of the search in strides is higher, which is worse."""

    def row(seed: str, some: Sequence[tuple[Searched, Searched]]) -> Row:
        strides, every = zip(*some, strict=True)
        differences = [100 * (one.bic - other.bic) / abs(other.bic) for one, other in some]
        return {
            "corpus": name,
            "seed": seed,
            "topics": _show(strides, every, lambda one: one.n_topics, 0),
            "BIC": spread([one.bic for one in strides], 0),
            "BIC, every number": spread([one.bic for one in every], 0),
            "difference, %": spread(differences, 4),
            "± standard error": _show_error(differences),
            "lower / same / higher": _count_signs(differences),
            "CPU seconds": _show(strides, every, lambda one: one.cpu_seconds, 1),
            "passes": _show(strides, every, lambda one: one.passes, 0),
            "numbers tried": _show(strides, every, lambda one: one.n_orders, 0),
        }

    rows = [row(str(seed), [pair]) for seed, pair in zip(seeds, pairs, strict=True)]
    return [*rows, row("all", pairs)]


def bench_threads(asked: Compared, ingest: Ingest, progress: Progress) -> list[Row]:
    """Time searches on a worker with one thread and on one with two, in turn. CPU time is that of
    all processes."""
    rows: list[Row] = []
    with (
        tempfile.TemporaryDirectory(prefix="atd-dask-bench-") as folder,
        ExitStack() as stack,
    ):
        configs = ingest_corpora(asked.names, asked.corpora, folder, ingest, progress)
        clients = {}
        for n_threads in THREADS:
            options = ClusterOptions(local=LocalOptions(workers=1, threads=n_threads))
            clients[n_threads] = stack.enter_context(connect(options))
            run_on_workers(clients[n_threads], train_generated)
        for config in configs:
            corpus, orders = _open(config), _choose_orders(config.null_model.topics)
            used: dict[int, list[Usage]] = {n_threads: [] for n_threads in THREADS}
            n_searches = len(THREADS) * len(asked.seeds)
            with progress.task(f"search {config.name}", n_searches, "searches") as task:
                for seed in asked.seeds:
                    for n_threads, client in clients.items():
                        with measure() as usage:
                            train_restarts(Training(corpus, orders, Convergence(), seed), 1, client)
                        used[n_threads].append(usage)
                        task.advance(threads=n_threads)
            rows += tabulate_threads(config.name, used)
    return rows


def tabulate_threads(name: str, used: Mapping[int, Sequence[Usage]]) -> list[Row]:
    """Make a row for each number of threads. How many times as fast it is as the first one is the
    median over pairs of searches."""
    first = used[min(used)]
    rows: list[Row] = []
    for n_threads, usages in used.items():
        ratios = [one.seconds / other.seconds for one, other in zip(first, usages, strict=True)]
        rows.append(
            {
                "corpus": name,
                "threads": n_threads,
                "seconds": spread([usage.seconds for usage in usages], 2),
                "CPU seconds": spread([usage.cpu_seconds for usage in usages], 2),
                "times as fast": f"{median(ratios):.2f}",
            }
        )
    return rows


def _show(
    strides: Sequence[Searched],
    every: Sequence[Searched],
    figure: Callable[[Searched], float],
    digits: int,
) -> str:
    """Show the means of both searches."""
    means = (math.fsum(map(figure, some)) / len(some) for some in (strides, every))
    return " / ".join(f"{mean:,.{digits}f}" for mean in means)


def _show_error(values: Sequence[float]) -> str:
    """Show the standard error of the mean, if there are several values."""
    if len(values) < 2:
        return ""
    mean = math.fsum(values) / len(values)
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return f"{math.sqrt(variance / len(values)):.4f}"


def _count_signs(values: Sequence[float]) -> str:
    n_lower, n_higher = sum(value < 0 for value in values), sum(value > 0 for value in values)
    return f"{n_lower} / {len(values) - n_lower - n_higher} / {n_higher}"
