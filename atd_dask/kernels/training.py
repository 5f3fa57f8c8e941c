"""Training a parsimonious topic model: the GEM iterations at one order, and the search over orders.

The passes over documents are given, so the same loop runs on one machine and on a cluster;
everything else happens here, from sums in the order of the blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from atd_dask.kernels.model import Floats, Ints, Proportions, WordTable
from atd_dask.kernels.passes import BlockPass, Passes
from atd_dask.kernels.statistics import ExpectedCounts, add_counts
from atd_dask.kernels.wording import (
    SharedModel,
    WordSwitches,
    entropy_cost,
    estimate_words,
    switch_words,
)

MIN_ITERATIONS = 3


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a training is: told after every iteration."""

    n_topics: int
    iteration: int
    bic: float


@dataclass(frozen=True, slots=True)
class OrderRecord:
    """One row of the search over the number of topics."""

    n_topics: int
    bic: float
    log_likelihood: float
    iterations: int
    topics_per_document: float
    words_per_topic: float


@dataclass(frozen=True, slots=True)
class TrainedOrder:
    """A model of one order, as it was when its BIC was evaluated."""

    record: OrderRecord
    table: WordTable
    switches: WordSwitches
    proportions: tuple[Proportions, ...]  # by block
    weight: Floats  # topics: Σ_d θ_jd


def evaluate_bic(results: Sequence[BlockPass], n_specific: Ints, n_words: int) -> float:
    """The paper's BIC, from what the blocks gave and the number of words of each topic."""
    n_topics = len(n_specific)
    places = n_topics * n_words
    tokens = sum(result.expected.tokens for result in results)
    n_docs = sum(result.n_docs for result in results)
    cost = n_docs * math.log(n_topics)
    for result in results:
        cost += result.cost
    cost += entropy_cost(int(n_specific.sum()), places) - 0.5 * math.log(places)
    for n_mine, length in zip(n_specific.tolist(), tokens.tolist(), strict=True):
        cost += 0.5 * n_mine * math.log(length / (2 * math.pi))
    return cost - sum_likelihoods(results)


def sum_likelihoods(results: Sequence[BlockPass]) -> float:
    total = 0.0
    for result in results:
        total += result.log_likelihood
    return total


def choose_anchors(results: Sequence[BlockPass]) -> list[Ints]:
    """For each block and topic the document that keeps the topic, so that no topic is left without
    a document though the documents are switched independently; -1 where it is in another block."""
    weights = np.stack([result.anchor_weights for result in results])
    home = weights.argmax(axis=0)
    return [
        np.where(home == block, result.anchors, -1) for block, result in enumerate(results)
    ]


def train_order(
    passes: Passes,
    shared: SharedModel,
    table: WordTable,
    switches: WordSwitches,
    tolerance: float,
    max_iterations: int,
    tell: Callable[[Progress], None] = lambda progress: None,
) -> TrainedOrder:
    """GEM iterations until the BIC falls by less than `tolerance` of itself."""
    table, switches, results = _assign(passes, table, switches)
    previous = math.inf
    for iteration in range(1, max_iterations + 1):
        slope = 0.5 * switches.n_specific / sum(result.expected.tokens for result in results)
        starts = [result.proportions for result in results]
        results = passes.fit(table, starts, slope, choose_anchors(results))
        bic = evaluate_bic(results, switches.n_specific, passes.n_words)
        tell(Progress(table.n_topics, iteration, bic))
        settled = iteration >= MIN_ITERATIONS and previous - bic <= tolerance * abs(bic)
        if settled or iteration == max_iterations:
            break
        previous = bic
        expected = add_counts([result.expected for result in results], passes.n_words)
        switches = switch_words(expected, shared, switches)
        table = estimate_words(expected, shared, switches)
    proportions = tuple(result.proportions for result in results)
    n_docs = max(sum(result.n_docs for result in results), 1)
    record = OrderRecord(
        n_topics=table.n_topics,
        bic=bic,
        log_likelihood=sum_likelihoods(results),
        iterations=iteration,
        topics_per_document=sum(len(p.topics) for p in proportions) / n_docs,
        words_per_topic=len(switches.words) / table.n_topics,
    )
    weight = add_counts([result.expected for result in results], passes.n_words).proportion
    return TrainedOrder(record, table, switches, proportions, weight)


def _assign(
    passes: Passes, table: WordTable, switches: WordSwitches
) -> tuple[WordTable, WordSwitches, list[BlockPass]]:
    """Gives every document its best topic; topics that are no document's best one are dropped."""
    while True:
        results = passes.assign(table)
        unused = sum(result.expected.tokens for result in results) == 0
        if not np.any(unused):
            return table, switches, results
        table, switches = drop_topics(table, switches, unused)


def drop_topics(
    table: WordTable, switches: WordSwitches, gone: NDArray[np.bool_]
) -> tuple[WordTable, WordSwitches]:
    """The model without the topics where `gone` is true; the others keep their words."""
    names = np.cumsum(~gone) - 1
    stays = ~gone[table.topics]
    sizes = np.bincount(
        np.repeat(np.arange(table.n_words), np.diff(table.indptr))[stays], minlength=table.n_words
    )
    smaller = WordTable(
        int((~gone).sum()),
        table.shared,
        np.concatenate(([0], np.cumsum(sizes))),
        names[table.topics[stays]].astype(np.int32),
        table.probabilities[stays],
        table.excess[stays],
        table.log_ratio[stays],
    )
    kept = np.repeat(~gone, np.diff(switches.indptr))
    return smaller, WordSwitches(
        np.concatenate(([0], np.cumsum(np.diff(switches.indptr)[~gone]))), switches.words[kept]
    )


def start_topics(
    passes: Passes, shared: SharedModel, seeds: ExpectedCounts
) -> tuple[WordTable, WordSwitches]:
    """The first topics: each from its seed documents, then from all the documents that are most
    likely under it."""
    switches = WordSwitches.occurring(seeds)
    table = estimate_words(seeds, shared, switches)
    table, switches, results = _assign(passes, table, switches)
    expected = add_counts([result.expected for result in results], passes.n_words)
    switches = switch_words(expected, shared, WordSwitches.occurring(expected))
    return estimate_words(expected, shared, switches), switches
