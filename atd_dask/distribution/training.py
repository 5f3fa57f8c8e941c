"""Training on a cluster.

The size of a task follows its cost. An iteration on a small corpus takes less time than a round
trip to the workers: then a task is a whole restart, and restarts run in parallel. A large corpus is
cut into its blocks, a task each. Either way the same kernels process the same blocks in the same
order, so the bytes are the same, as they are without a cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol, Self, cast

import numpy as np

from atd_dask.distribution.engine.events import listen, report
from atd_dask.distribution.engine.runner import RemoteResults, Runner, align, hold
from atd_dask.json_records import JsonObject
from atd_dask.kernels.blocks import Corpus, MemoryCorpus
from atd_dask.kernels.model import Block, Floats, Ints, Proportions, WordTable
from atd_dask.kernels.passes import (
    BRANCHES,
    HeldProportions,
    LocalPasses,
    Pass,
    Passes,
    add_passes,
    anchors_in,
    assign_pass,
    fit_pass,
    place_anchors,
)
from atd_dask.kernels.seeding import seed_topics
from atd_dask.kernels.statistics import ExpectedCounts, count_words
from atd_dask.kernels.training import (
    Convergence,
    CostTerms,
    OrderRange,
    OrderRecord,
    SelectionState,
    select_order,
    start_selection,
)
from atd_dask.kernels.word_switches import SharedModel

if TYPE_CHECKING:
    from atd_dask.distribution.engine.clients import Client

# Up to this size, about ten times the paper's corpora, a restart is one task.
SMALL_ENTRIES = 2**22


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

    with listen(client, on_event) as channel:
        return list(
            Runner(client).map(train_restart, (training, checkpointer, channel), range(restarts))
        )


def choose_best(selections: Sequence[SelectionState]) -> WordTable:
    """Return the model with the least BIC; the first one if several have it."""
    best = min(selections, key=lambda search: min(record.bic for record in search.records))
    assert best.best is not None
    return best.best


def train_restart(
    given: tuple[Training, RestartCheckpointer | None, str | None], restart: int
) -> SelectionState:
    """Run one whole restart on a worker."""
    training, checkpointer, channel = given

    def on_progress(restart: int, done: OrderRecord | Iteration | Widening) -> None:
        report(channel, {"restart": restart, "kind": type(done).__name__, "done": asdict(done)})

    training, passes = _read(training)
    return _select(training, restart, passes, checkpointer, on_progress)


def _read(training: Training) -> tuple[Training, LocalPasses]:
    """Return the same training with its documents in this process."""
    corpus = MemoryCorpus.read(training.corpus)
    return replace(training, corpus=corpus), LocalPasses(corpus.blocks(), corpus.n_words)


def _select(
    training: Training,
    restart: int,
    passes: Passes,
    checkpointer: RestartCheckpointer | None,
    on_progress: OnProgress,
) -> SelectionState:
    shared = SharedModel.from_counts(passes.count_words())
    state = checkpointer.load(restart, shared.probabilities) if checkpointer else None
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
            restart,
        )

    if state is None:
        state = start_selection(shared, seed(orders.max))
    keep_state = checkpointer.keep(restart) if checkpointer else None
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
                on_progress(restart, record)
            if state.wider != wider:
                assert state.wider is not None
                wider = state.wider
                best = min(state.records, key=lambda record: record.bic).n_topics
                on_progress(restart, Widening(best, wider.min, wider.max))
        elif state.iteration > 0 and time.monotonic() - last >= SECONDS_BETWEEN:
            last = time.monotonic()
            on_progress(restart, Iteration(state.table.n_topics, state.iteration, state.bic))

    return select_order(
        passes, shared, state, orders, training.convergence, training.terms, keep, seed
    )


@dataclass(frozen=True)
class ProportionsOnWorkers:
    """Proportions that stay where their blocks were fitted. If a worker is lost, Dask recomputes
    them, starting with the first pass of their order."""

    runner: Runner
    kept: RemoteResults
    starts: Ints  # of the blocks

    def part(self, start: int, stop: int) -> Proportions:
        index = int(np.searchsorted(self.starts, start))
        (part,) = self.runner.ask(hold, self.kept, [(index, None)])
        assert len(part) == stop - start
        return cast(Proportions, part)

    def save(self, save: Callable[[int, Proportions], None]) -> list[int]:
        starts: list[int] = self.starts[:-1].tolist()
        self.runner.ask_all(save_part, self.kept, save, starts)
        return starts


class ClusterPasses:
    """Passes with a task for each block.

    The blocks, the model and the proportions are held as results of tasks, which Dask recomputes if
    a worker that had them is lost. Statistics are added on the workers; only one sum is sent to the
    client.
    """

    def __init__(self, runner: Runner, corpus: Corpus) -> None:
        self._runner = runner
        self._corpus = corpus
        self.n_words = corpus.n_words

    def __enter__(self) -> Self:
        blocks = range(len(self._corpus.block_starts) - 1)
        self._blocks = self._runner.keep(read_block, self._corpus, blocks)
        return self

    def __exit__(self, *error: object) -> None:
        self._runner.drop(self._blocks)

    def count_words(self) -> Ints:
        counts = self._runner.keep_all(count_in_block, self._blocks, self.n_words)
        totals: Ints = self._runner.reduce(add_totals, counts, None, BRANCHES)
        return totals

    def assign(self, table: WordTable) -> Pass:
        return self._add_up(self._runner.keep_all(assign_block, self._blocks, table))

    def fit(
        self,
        table: WordTable,
        start: Proportions | HeldProportions,
        slope: Floats,
        anchors: Ints,
    ) -> Pass:
        if isinstance(start, ProportionsOnWorkers):
            starts = start.kept
        else:
            bounds = list(pairwise(self._corpus.block_starts.tolist()))
            if isinstance(start, Proportions):
                starts = self._runner.keep(hold_part, None, [start.part(*two) for two in bounds])
            else:
                starts = self._runner.keep(read_part, start, bounds)
        given = (table, slope, anchors)
        return self._add_up(self._runner.keep_all(fit_block, self._blocks, given, starts))

    def _add_up(self, parts: RemoteResults) -> Pass:
        kept = self._runner.keep_all(take_proportions, parts, None)
        whole: Pass = self._runner.reduce(add_parts, parts, self.n_words, BRANCHES)
        starts = self._corpus.block_starts
        return replace(whole, proportions=ProportionsOnWorkers(self._runner, kept, starts))


def read_block(corpus: Corpus, index: int) -> Block:
    return corpus.block(index)


def count_in_block(block: Block, n_words: int) -> Ints:
    return count_words(block, n_words)


def add_totals(parts: Sequence[Ints], _: None) -> Ints:
    totals: Ints = np.sum(parts, axis=0)
    return totals


def assign_block(block: Block, table: WordTable) -> Pass:
    return place_anchors(assign_pass(block, table), block.start)


def fit_block(block: Block, given: tuple[WordTable, Floats, Ints], start: Proportions) -> Pass:
    table, slope, anchors = given
    mine = anchors_in(anchors, block.start, block.start + len(block))
    # The proportions may come from another worker.
    return place_anchors(fit_pass(block, table, align(start), slope, mine), block.start)


def take_proportions(part: Pass, _: None) -> Proportions | HeldProportions:
    return part.proportions


def add_parts(parts: Sequence[Pass], n_words: int) -> Pass:
    return add_passes(parts, n_words)


def hold_part(_: None, part: Proportions) -> Proportions:
    return cast(Proportions, align(part))


def read_part(saved: HeldProportions, bounds: tuple[int, int]) -> Proportions:
    return saved.part(*bounds)


def save_part(part: Proportions, save: Callable[[int, Proportions], None], start: int) -> None:
    save(start, part)
