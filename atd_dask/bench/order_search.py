"""Compares the search over numbers of topics with one that tries every number.

Both start from the same topics with each seed, and run in this process, on one thread. The search
in strides is the one that a run does: on a sample first, if there are many documents.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from atd_dask.bench.large_batch import Shape
from atd_dask.bench.training_passes import write_documents
from atd_dask.bench.training_quality import ingest_corpora, train_generated
from atd_dask.bench.usage import Row, spread
from atd_dask.config.run_config import RunConfig, TopicsConfig
from atd_dask.distribution.training import SAMPLE_DOCUMENTS, Training, train_restarts
from atd_dask.kernels.blocks import Corpus
from atd_dask.kernels.model import Floats
from atd_dask.kernels.training import Convergence, OrderRange, SelectionState
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.run_layout import RunLayout

if TYPE_CHECKING:
    from atd_dask.bench.usage import Ingest
    from atd_dask.progress import Progress


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
            store = CorpusStore.open(RunLayout(config.output).corpus("train"))
            topics = config.null_model.topics
            yield compare_orders(config.name, store.without_copies(), topics, asked.seeds, progress)
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
    limit = topics.limit if topics.widen else None
    orders = OrderRange(topics.max, topics.min, topics.step, limit)
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
