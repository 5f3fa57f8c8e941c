"""Training of a parsimonious topic model: GEM iterations at one order, and the selection of the
order.

Passes over documents are an argument, so the same selection runs on one machine and on a cluster;
everything else happens here. A selection is a chain of states, one for each pass. Any of them can
be saved, and resumed as if nothing had happened.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from atd_dask.kernels.model import HeldTable, WordTable
from atd_dask.kernels.passes import NextWords, Pass, Passes, Start
from atd_dask.kernels.statistics import ExpectedCounts
from atd_dask.kernels.streams import open_stream
from atd_dask.kernels.topic_edits import drop_least, drop_topics, split_topics
from atd_dask.kernels.word_sweeps import entropy_cost
from atd_dask.kernels.word_switches import (
    LEAST_MASS_OF_NEW,
    SharedModel,
    TopicWords,
    WordsOfTopics,
    WordSwitches,
    encoding_cost,
    estimate_topics,
    estimate_words,
    switch_words,
)

MIN_ITERATIONS = 3

# Rounds in which every document has only its best topic, before documents may have several. Topics
# that share documents too early stay blurred; on Reuters, the BIC is higher by a thousand.
FIRST_ROUNDS = 10
ROUNDS = 2

# Returns this many topics to start from.
Seeding = Callable[[int], ExpectedCounts]

# The best order is at the upper end of a range if it is in the upper fifth, and at the lower end if
# fewer than a tenth as many orders are below it: a descent begins with topics that are about to
# merge, so its best order is farther from its beginning than from its end.
UPPER_REACH = 5
LOWER_REACH = 10
LEAST_REACH = 2

# A descent drops an eighth of the topics at a time, and ends when the best order is two such
# strides behind. The orders that it skipped next to the best one are tried afterwards.
STRIDE = 8
STRIDES_BEHIND = 2

# The best order is restarted as long as that gains this share of the tolerance.
WORTH_A_START = 0.1

# How often an eighth of its topics are split if a restart pays.
SPLITS = 4


@dataclass(frozen=True, slots=True)
class OrderRange:
    """The numbers of topics to try, from `max` down to `min`: in long strides first, then by `step`
    next to the best. With `every`, by `step` only, to the end.

    With a `limit`, the range is widened if the best order is at one end: below `min`, down to a
    single topic, or above `max`, up to the limit. Without one it is fixed.
    """

    max: int
    min: int
    step: int = 1
    limit: int | None = None
    every: bool = False

    def is_at_upper_end(self, best: int) -> bool:
        return best > self.max - max(LEAST_REACH * self.step, self.max // UPPER_REACH)

    def is_at_lower_end(self, best: int) -> bool:
        return best < self.min + max(LEAST_REACH * self.step, best // LOWER_REACH)

    def stride(self, n_topics: int) -> int:
        """Return how many of these topics to drop at once: a multiple of `step`, longer than `step`
        only within the range."""
        if self.every:
            return self.step
        least = self.min if n_topics - self.step >= self.min else 1
        n_steps = min(n_topics // STRIDE, n_topics - least) // self.step
        return self.step * max(n_steps, 1)

    @property
    def is_single(self) -> bool:
        """Whether there is nothing to choose."""
        return self.max == self.min and self.limit is None

    def split(self, n_topics: int) -> int:
        """Return how many of these topics to split at once: as many as a stride drops, and none if
        every order is tried, or only one."""
        most = max(self.max, self.limit or 0)
        wanted = max(n_topics // STRIDE, self.step)
        n_steps = min(wanted, most - n_topics, n_topics) // self.step
        return 0 if self.every or self.is_single else self.step * n_steps

    def is_past(self, best: int, n_topics: int) -> bool:
        """Return whether a descent that has reached `n_topics` has left the best order well
        behind."""
        reach = max(LEAST_REACH * self.step, best // STRIDE)
        return not self.every and best - n_topics >= STRIDES_BEHIND * reach

    def count(self) -> int:
        """Return how many orders a descent through the whole range tries."""
        n_topics, n_orders = self.max, 1
        while n_topics - self.step >= self.min:
            n_topics -= self.stride(n_topics)
            n_orders += 1
        return n_orders

    def rise(self) -> OrderRange | None:
        """Return the range above this one, up to twice as many topics, or None at the limit. A
        descent that starts just above the true number of topics leaves some of them joined."""
        if self.limit is None or self.max >= self.limit:
            return None
        return replace(self, max=min(2 * self.max, self.limit), min=self.max)


@dataclass(frozen=True, slots=True)
class Convergence:
    """When the iterations of an order end: when the BIC falls by less than `tolerance` of itself.

    After the last order, `again` restarts the best one from its own topics, with one topic for each
    document, as long as that lowers the BIC by a tenth as much. If the first restart does, topics
    are split before the next one, and from then on the iterations go on as long as restarts do.
    """

    tolerance: float = 1e-4
    max_iterations: int = 100
    again: bool = True


@dataclass(frozen=True, slots=True)
class OrderRecord:
    """One order that was tried."""

    n_topics: int
    bic: float
    log_likelihood: float
    iterations: int
    topics_per_document: float
    words_per_topic: float


@dataclass(frozen=True, slots=True)
class SkippedOrders:
    """Orders between two that were tried, from that of `table` down to `least`."""

    table: WordTable
    least: int
    index: int  # of the record of the order below them


@dataclass(frozen=True, slots=True)
class SelectionState:
    """The state of a selection. The best order so far is the first of `records` with the least BIC;
    an order that is restarted has a record for each time.

    A selection is a descent through the orders, or several if the range is widened, and then tries
    what was skipped next to the best order. Then it restarts the best order. If that pays, it
    splits some of its topics and drops as many again, a few times, and restarts the best of all.
    """

    table: HeldTable
    iteration: int  # of the current order; below 0, the rounds with one topic that are left
    start: Start | None = None  # the proportions of documents, and more
    bic: float = math.inf  # of the last pass
    records: tuple[OrderRecord, ...] = ()
    best: WordTable | None = None
    wider: OrderRange | None = None  # range of the current descent, if it is not the first
    n_before: int = 0  # records of earlier descents
    skipped: tuple[SkippedOrders, ...] = ()  # next to the best order
    least: int | None = None  # of the orders that are being tried, skipped or after a split
    n_splits: int = 0  # how often topics were split
    again: bool = False  # all orders were tried, and the best is being restarted
    finished: bool = False


@dataclass(frozen=True, slots=True)
class CostTerms:
    """How the entropy of the word switches counts, in the BIC and in deciding on a switch.

    The paper has M·N·H in bits times log 2, which is M·N·H in nats, in both. The authors' programs
    use nats times log 2 in the BIC, and omit the factor M in decisions.

    With `lda` there is nothing to decide: every topic has its own probability for every word, and
    topics cost documents nothing.
    """

    authors: bool = False
    lda: bool = False

    @property
    def in_bic(self) -> float:
        return math.log(2) if self.authors else 1.0

    def in_switch(self, n_topics: int) -> float:
        return math.log(2) / n_topics if self.authors else 1.0


def evaluate_bic(result: Pass, n_words: int, terms: CostTerms | None = None) -> float:
    """Return the paper's BIC, from a fit."""
    weight = (terms or CostTerms()).in_bic
    n_specific = result.n_specific
    n_topics = len(n_specific)
    places = n_topics * n_words
    cost = result.n_docs * math.log(n_topics) + result.cost
    cost += weight * entropy_cost(int(n_specific.sum()), places) - 0.5 * math.log(places)
    for n_mine, tokens in zip(n_specific.tolist(), result.expected.tokens.tolist(), strict=True):
        cost += 0.5 * n_mine * math.log(tokens / (2 * math.pi))
    return float(cost - result.log_likelihood)


def start_selection(shared: SharedModel, seeds: ExpectedCounts) -> SelectionState:
    """Return the first state: each topic from its seed documents."""
    return SelectionState(
        estimate_words(seeds, shared, WordSwitches.occurring(seeds)), iteration=-FIRST_ROUNDS
    )


def resume_selection(table: WordTable) -> SelectionState:
    """Return the first state of a search that goes on from the topics of another."""
    return SelectionState(table, iteration=-ROUNDS)


def select_order(
    passes: Passes,
    shared: SharedModel,
    state: SelectionState,
    orders: OrderRange,
    convergence: Convergence,
    terms: CostTerms,
    keep: Callable[[SelectionState], None] = lambda state: None,
    seed: Seeding | None = None,
) -> SelectionState:
    """Continue from a state to the end of the selection, calling `keep` with every state on the
    way. `seed` returns a given number of topics, from which a descent in a wider range starts."""
    while not state.finished:
        if state.iteration < 0:
            state = _assign(passes, shared, state, orders, terms)
        else:
            state = _iterate(passes, shared, state, orders, convergence, terms, seed)
        keep(state)
    return state


def _assign(
    passes: Passes,
    shared: SharedModel,
    state: SelectionState,
    orders: OrderRange,
    terms: CostTerms,
) -> SelectionState:
    """Assign every document to its best topic, and drop topics that are no document's best. If an
    order is being restarted, losing a topic ends it; after a split, losing more than were new."""
    table = state.table
    while True:
        result = passes.assign(table)
        unused = result.expected.tokens == 0
        if not np.any(unused):
            break
        if state.again:
            return replace(state, finished=True)
        table = drop_topics(table.read(), unused)
        if state.n_splits and state.least is not None and table.n_topics < state.least:
            return _split_best(replace(state, start=None), orders)
    if state.iteration < -1:
        anew = state.iteration == -FIRST_ROUNDS
        table = result.expected.ask(improve_words, shared, table, terms, anew)
    return replace(state, table=table, iteration=state.iteration + 1, start=Start.after(result))


def _iterate(
    passes: Passes,
    shared: SharedModel,
    state: SelectionState,
    orders: OrderRange,
    convergence: Convergence,
    terms: CostTerms,
    seed: Seeding | None,
) -> SelectionState:
    """Do one GEM iteration; at the end of an order, go to the next."""
    assert state.start is not None
    likely = NextWords(improve_words, (shared, state.table, terms))
    result = passes.fit(state.table, state.start, terms.lda, likely)
    bic = evaluate_bic(result, passes.n_words, terms)
    iteration = state.iteration + 1
    finer = WORTH_A_START if state.again and state.n_splits else 1.0
    small = state.bic - bic <= finer * convergence.tolerance * abs(bic)
    if iteration < convergence.max_iterations and not (small and iteration >= MIN_ITERATIONS):
        start = Start.after(result)
        return replace(state, table=likely.ask(result), iteration=iteration, start=start, bic=bic)
    passes.forget()
    table = state.table.read()
    record = OrderRecord(
        n_topics=table.n_topics,
        bic=bic,
        log_likelihood=result.log_likelihood,
        iterations=iteration,
        topics_per_document=result.n_active / max(result.n_docs, 1),
        words_per_topic=len(table.topics) / table.n_topics,
    )
    best = state.best
    least = min((other.bic for other in state.records), default=math.inf)
    if bic < least:
        best = result.expected.ask(complete_words, shared, state.table).read()
    ended = replace(
        state, table=table, records=(*state.records, record), best=best, start=None, bic=math.inf
    )
    if state.again:
        pays = least - bic > WORTH_A_START * convergence.tolerance * abs(bic)
        if not pays:
            return replace(ended, finished=True)
        return _start_again(ended) if state.n_splits else _split_best(ended, orders)
    if state.least is not None:
        n_above = table.n_topics - state.least
        n_gone = n_above if state.n_splits else orders.step
        if 0 < n_gone <= n_above:
            fewer = drop_least(table, result, n_gone)
            return replace(ended, table=fewer, iteration=-ROUNDS)
        if state.n_splits:
            return _split_best(ended, orders)
        return _try_skipped(ended, convergence)
    ended = replace(ended, skipped=_next_to_best(ended))
    if _goes_down(ended, orders):
        return _leave_order(ended, result, orders)
    higher = _find_higher(ended, orders)
    if higher is not None:
        assert seed is not None
        first = start_selection(shared, seed(higher.max))
        n_before = len(ended.records)
        return replace(
            ended, table=first.table, iteration=first.iteration, wider=higher, n_before=n_before
        )
    return _try_skipped(ended, convergence)


def _goes_down(state: SelectionState, orders: OrderRange) -> bool:
    """Return whether the descent has another order to try: within its range, or below it if its
    best order is at the end of what was tried; not if the best is well behind."""
    orders = state.wider or orders
    n_topics = state.table.n_topics
    best = min(state.records[state.n_before :], key=lambda record: record.bic).n_topics
    if orders.is_past(best, n_topics):
        return False
    if n_topics - orders.step >= orders.min:
        return True
    if orders.limit is None or n_topics <= orders.step:
        return False
    return replace(orders, min=n_topics).is_at_lower_end(best)


def _find_higher(state: SelectionState, orders: OrderRange) -> OrderRange | None:
    """Return the next range if the best of all orders is at the upper end of this descent."""
    orders = state.wider or orders
    best = _find_best(state)
    at_end = best >= state.n_before and orders.is_at_upper_end(state.records[best].n_topics)
    return orders.rise() if at_end else None


def _find_best(state: SelectionState) -> int:
    """Return the index of the record with the least BIC."""
    return min(range(len(state.records)), key=lambda index: state.records[index].bic)


def _next_to_best(state: SelectionState) -> tuple[SkippedOrders, ...]:
    """Return what was skipped right above and right below the best order."""
    best = _find_best(state)
    return tuple(orders for orders in state.skipped if best <= orders.index <= best + 1)


def _try_skipped(state: SelectionState, convergence: Convergence) -> SelectionState:
    """Go to what was skipped next to the best order; after that, or if there is nothing, restart
    the best order."""
    if not state.skipped:
        return _start_again(state) if convergence.again else replace(state, finished=True)
    first, *others = state.skipped
    return replace(
        state, table=first.table, iteration=-ROUNDS, skipped=tuple(others), least=first.least
    )


def _start_again(state: SelectionState) -> SelectionState:
    assert state.best is not None
    return replace(state, table=state.best, iteration=-ROUNDS, again=True)


def _split_best(state: SelectionState, orders: OrderRange) -> SelectionState:
    """Split topics of the best order, which then has as many dropped; after the last time, or if
    there may not be more topics, restart the best order."""
    assert state.best is not None
    n_topics, turn = state.best.n_topics, state.n_splits
    n_split = orders.split(n_topics)
    if turn >= SPLITS or n_split == 0:
        return _start_again(state)
    table = split_topics(state.best, n_split, open_stream(turn, "topics that are split"))
    return replace(
        state, table=table, iteration=-ROUNDS, least=n_topics, n_splits=turn + 1, again=False
    )


def _leave_order(state: SelectionState, result: Pass, orders: OrderRange) -> SelectionState:
    """Take a stride down, and note what it skips."""
    orders = state.wider or orders
    whole, n_topics = state.table.read(), state.table.n_topics
    stride, skipped = orders.stride(n_topics), state.skipped
    if stride > orders.step:
        table = drop_least(whole, result, orders.step)
        least = n_topics - stride + orders.step
        skipped = (*skipped, SkippedOrders(table, least, len(state.records)))
    table = drop_least(whole, result, stride)
    return replace(state, table=table, iteration=-ROUNDS, skipped=skipped)


def improve_words(
    expected: ExpectedCounts,
    shared: SharedModel,
    table: WordsOfTopics,
    terms: CostTerms,
    anew: bool = False,
) -> TopicWords:
    """Return the words of some topics after the u-switches; starting from those of `table`, which
    has all topics, or `anew` from every word that occurs under a topic."""
    if terms.lda:
        return estimate_topics(expected, shared, WordSwitches.every(expected.n_topics, shared))
    weight = terms.in_switch(table.n_topics)
    if anew:
        switches = switch_words(expected, shared, WordSwitches.occurring(expected), weight=weight)
    else:
        n_on, places = len(table.probabilities), table.n_topics * len(shared.probabilities)
        encoding = weight * encoding_cost(n_on, places)
        switches = switch_words(expected, shared, _switches_in(table, expected), encoding)
    return estimate_topics(expected, shared, switches)


def complete_words(
    expected: ExpectedCounts, shared: SharedModel, table: WordsOfTopics
) -> TopicWords:
    """Return the words of some topics for new documents, with the switches of `table`."""
    return estimate_topics(expected, shared, _switches_in(table, expected), LEAST_MASS_OF_NEW)


def _switches_in(table: WordsOfTopics, expected: ExpectedCounts) -> WordSwitches:
    return WordSwitches.of(table).part(expected.first, expected.first + expected.n_topics)
