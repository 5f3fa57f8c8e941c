"""Training on a cluster.

The size of a task follows its cost. An iteration on a small corpus takes less time than a round
trip to the workers: then a task is a whole restart, and restarts run in parallel. If there are
fewer of them than threads, they share the threads of their worker, or of this machine if the
cluster is on it. A large corpus is cut into its blocks, and a task is a group of these. Either way
the same kernels process the same blocks in the same order, so the bytes are the same, as they are
without a cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from atd_dask.distribution.block_passes import ClusterPasses
from atd_dask.distribution.engine.events import listen, report
from atd_dask.distribution.engine.runner import Runner
from atd_dask.distribution.engine.worker_threads import count_own_threads, share_local_threads
from atd_dask.json_records import JsonObject
from atd_dask.kernels.blocks import Corpus, MemoryCorpus
from atd_dask.kernels.model import Floats, WordTable
from atd_dask.kernels.passes import LocalPasses, Passes
from atd_dask.kernels.seeding import seed_topics
from atd_dask.kernels.statistics import ExpectedCounts
from atd_dask.kernels.threads import Threads
from atd_dask.kernels.training import (
    Convergence,
    CostTerms,
    OrderRange,
    OrderRecord,
    SelectionState,
    resume_selection,
    select_order,
    start_selection,
)
from atd_dask.kernels.word_switches import SharedModel

if TYPE_CHECKING:
    from atd_dask.distribution.engine.clients import Client

# Up to this size, about ten times the paper's corpora, a restart is one task.
SMALL_ENTRIES = 2**22

# With less to do, another thread would not pay.
ENTRIES_OF_A_THREAD = 2**14

# On a larger corpus the number of topics is chosen on a sample of it, and only the topics of the
# best number are trained on all documents. The sample is evenly spaced.
LARGE_DOCUMENTS = 40_000
SAMPLE_DOCUMENTS = 20_000

# Seconds between reports of iterations; every order is reported.
SECONDS_BETWEEN = 1.0

# A range of orders is widened to at most one topic for this many documents.
DOCUMENTS_OF_A_TOPIC = 10

# Called with the number of a restart, and its progress.
OnProgress = Callable[[int, "OrderRecord | Iteration | Widening"], None]


@dataclass(frozen=True)
class Iteration:
    """The progress of training at one order."""

    n_topics: int
    iteration: int
    bic: float


@dataclass(frozen=True)
class Widening:
    """The best order is at the upper end of those that were tried, so more topics are tried."""

    best: int
    tried: int  # the most topics so far
    most: int  # the most from now on


_TOLD: dict[str, type[OrderRecord | Iteration | Widening]] = {
    kind.__name__: kind for kind in (OrderRecord, Iteration, Widening)
}


class RestartCheckpointer(Protocol):
    """Saves the states of restarts, so that they can be resumed. It is sent to workers."""

    def load(self, restart: int, shared: Floats) -> SelectionState | None: ...

    def keep(self, restart: int) -> Callable[[SelectionState], None]: ...

    def of_sample(self) -> RestartCheckpointer:
        """Return one for the search in a sample of the documents."""


@dataclass(frozen=True)
class Training:
    """A training: everything that its result depends on."""

    corpus: Corpus
    orders: OrderRange
    convergence: Convergence
    seed: int
    terms: CostTerms = field(default_factory=CostTerms)


def train_restarts(
    training: Training,
    restarts: int,
    client: Client | None = None,
    checkpointer: RestartCheckpointer | None = None,
    on_progress: OnProgress = lambda restart, record: None,
) -> list[SelectionState]:
    """Return the finished selections of all restarts, in order. `on_progress` is called for every
    order when it is first tried, and now and then for an iteration."""
    if client is None:
        training, passes = _read(training)
        return [_select(training, n, passes, checkpointer, on_progress) for n in range(restarts)]
    if training.corpus.n_entries > SMALL_ENTRIES:
        with ClusterPasses(Runner(client), training.corpus) as spread:
            return [
                _select(training, n, spread, checkpointer, on_progress) for n in range(restarts)
            ]

    def on_event(content: JsonObject) -> None:
        on_progress(content["restart"], _TOLD[content["kind"]](**content["done"]))

    n_threads = min(
        share_local_threads(client, restarts), training.corpus.n_entries // ENTRIES_OF_A_THREAD
    )
    with listen(client, on_event) as channel:
        given = training, checkpointer, channel, n_threads
        return list(Runner(client).map(train_restart, given, range(restarts)))


def choose_best(selections: Sequence[SelectionState]) -> WordTable:
    """Return the model with the least BIC; the first one if several have it."""
    best = min(selections, key=lambda search: min(record.bic for record in search.records))
    assert best.best is not None
    return best.best


def train_restart(
    given: tuple[Training, RestartCheckpointer | None, str | None, int], restart: int
) -> SelectionState:
    """Run one whole restart on a worker, on the threads that other tasks leave it, or on as many as
    it is given."""
    training, checkpointer, channel, n_threads = given

    def on_progress(restart: int, done: OrderRecord | Iteration | Widening) -> None:
        report(channel, {"restart": restart, "kind": type(done).__name__, "done": asdict(done)})

    with Threads(lambda: max(count_own_threads(), n_threads)) as threads:
        training, passes = _read(training)
        passes = replace(passes, threads=threads)
        return _select(training, restart, passes, checkpointer, on_progress)


def _read(training: Training) -> tuple[Training, LocalPasses]:
    """Return the same training with its documents in this process."""
    corpus = MemoryCorpus.read(training.corpus)
    return replace(training, corpus=corpus), LocalPasses(corpus)


def _select(
    training: Training,
    restart: int,
    passes: Passes,
    checkpointer: RestartCheckpointer | None,
    on_progress: OnProgress,
) -> SelectionState:
    shared = SharedModel.from_counts(passes.count_words())
    search = _Search(training, restart, shared, checkpointer, on_progress)
    if not needs_sample(training):
        return search.run(passes)
    state = search.load()
    if state is None:
        n_docs = training.corpus.n_docs
        rows = np.arange(SAMPLE_DOCUMENTS) * n_docs // SAMPLE_DOCUMENTS
        corpus = MemoryCorpus(passes.take(rows), training.corpus.n_words)
        few = replace(
            training, corpus=corpus, convergence=replace(training.convergence, again=False)
        )
        aside = checkpointer.of_sample() if checkpointer else None
        with passes.over(corpus) as some:
            chosen = replace(search, training=few, checkpointer=aside).run(some)
        assert chosen.best is not None
        state = resume_selection(chosen.best)
    n_topics = state.table.n_topics
    rest = replace(training, orders=OrderRange(n_topics, n_topics, training.orders.step))
    return replace(search, training=rest).run(passes, state)


def needs_sample(training: Training) -> bool:
    """Return whether the number of topics is chosen on a sample of the documents."""
    orders = training.orders
    several = not (orders.is_single or orders.every)
    return training.corpus.n_docs > LARGE_DOCUMENTS and several


@dataclass(frozen=True)
class _Search:
    """A search over orders: of a restart, or of its sample."""

    training: Training
    restart: int
    shared: SharedModel
    checkpointer: RestartCheckpointer | None
    on_progress: OnProgress

    def load(self) -> SelectionState | None:
        if self.checkpointer is None:
            return None
        return self.checkpointer.load(self.restart, self.shared.probabilities)

    def run(self, passes: Passes, state: SelectionState | None = None) -> SelectionState:
        """Return the last state of the search, which goes on from `state`, or from its checkpoint,
        or starts."""
        training = self.training
        orders, lengths = training.orders, training.corpus.lengths()
        if orders.limit is not None:
            enough = int(np.count_nonzero(lengths)) // DOCUMENTS_OF_A_TOPIC
            orders = replace(orders, limit=min(orders.limit, enough))

        def seed(n_topics: int) -> ExpectedCounts:
            return seed_topics(
                lengths,
                lambda document: training.corpus.rows(document, document + 1),
                training.corpus.n_words,
                n_topics,
                training.seed,
                self.restart,
            )

        if state is None:
            state = self.load() or start_selection(self.shared, seed(orders.max))
        keep = self._follow(state)
        return select_order(
            passes, self.shared, state, orders, training.convergence, training.terms, keep, seed
        )

    def _follow(self, state: SelectionState) -> Callable[[SelectionState], None]:
        """Return a function that saves and reports every state after this one."""
        keep_state = self.checkpointer.keep(self.restart) if self.checkpointer else None
        n_orders, wider = len(state.records), state.wider
        last = time.monotonic()

        def keep(state: SelectionState) -> None:
            nonlocal n_orders, wider, last
            if keep_state is not None:
                keep_state(state)
            if len(state.records) > n_orders:
                n_orders = len(state.records)
                last = time.monotonic()
                *others, record = state.records
                if all(record.n_topics != other.n_topics for other in others):
                    self.on_progress(self.restart, record)
                if state.wider != wider:
                    assert state.wider is not None
                    wider = state.wider
                    best = min(state.records, key=lambda record: record.bic).n_topics
                    self.on_progress(self.restart, Widening(best, wider.min, wider.max))
            elif state.iteration > 0 and time.monotonic() - last >= SECONDS_BETWEEN:
                last = time.monotonic()
                iteration = Iteration(state.table.n_topics, state.iteration, state.bic)
                self.on_progress(self.restart, iteration)

        return keep
