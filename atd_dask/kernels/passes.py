"""One pass over a block of documents: the part of a training iteration that is spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from atd_dask.kernels.fitting import assign_block, fit_block
from atd_dask.kernels.jit import kernel
from atd_dask.kernels.model import Block, Floats, Ints, Proportions, WordTable
from atd_dask.kernels.statistics import ExpectedCounts, collect_block


@dataclass(frozen=True, slots=True)
class BlockPass:
    """What a block gives back."""

    proportions: Proportions
    expected: ExpectedCounts
    log_likelihood: float
    cost: float
    n_docs: int  # documents with a known word
    anchors: Ints  # topics: the document with most of the topic, -1 where no document has it
    anchor_weights: Floats  # topics: θ_jd L_d of that document


class Passes(Protocol):
    """Runs a pass on every block of a corpus and gives the results in the order of the blocks."""

    n_words: int

    def assign(self, table: WordTable) -> list[BlockPass]: ...

    def fit(
        self,
        table: WordTable,
        starts: Sequence[Proportions],
        slope: Floats,
        anchors: Sequence[Ints],
    ) -> list[BlockPass]: ...


def assign_pass(block: Block, table: WordTable) -> BlockPass:
    """Every document gets its one best topic."""
    proportions = assign_block(block, table)
    return _close(block, table, proportions, 0.0, 0.0)


def fit_pass(
    block: Block, table: WordTable, start: Proportions, slope: Floats, anchors: Ints
) -> BlockPass:
    """Switches and proportions of every document, then the expected counts."""
    fit = fit_block(block, table, start, slope, anchors)
    return _close(block, table, fit.proportions, add_up(fit.log_likelihoods), fit.cost)


def _close(
    block: Block, table: WordTable, proportions: Proportions, log_likelihood: float, cost: float
) -> BlockPass:
    expected = collect_block(block, table, proportions)
    anchors, weights = _find_anchors(
        table.n_topics, block.indptr, block.counts, *proportions.arrays
    )
    n_docs = int(np.count_nonzero(np.diff(proportions.indptr)))
    return BlockPass(proportions, expected, log_likelihood, cost, n_docs, anchors, weights)


@kernel
def add_up(values):  # type: ignore[no-untyped-def]
    """The sum from the first to the last, whatever the machine."""
    total = 0.0
    for value in values:
        total += value
    return total


@kernel
def _find_anchors(n_topics, indptr, counts, theta_indptr, topics, theta):  # type: ignore[no-untyped-def]
    anchors = np.full(n_topics, -1)
    weights = np.zeros(n_topics)
    for d in range(len(indptr) - 1):
        length = 0
        for i in range(indptr[d], indptr[d + 1]):
            length += counts[i]
        for k in range(theta_indptr[d], theta_indptr[d + 1]):
            weight = theta[k] * length
            if anchors[topics[k]] < 0 or weight > weights[topics[k]]:
                anchors[topics[k]] = d
                weights[topics[k]] = weight
    return anchors, weights


@dataclass(frozen=True)
class LocalPasses:
    """All blocks in this process, one after the other."""

    blocks: Sequence[Block]
    n_words: int

    def assign(self, table: WordTable) -> list[BlockPass]:
        return [assign_pass(block, table) for block in self.blocks]

    def fit(
        self,
        table: WordTable,
        starts: Sequence[Proportions],
        slope: Floats,
        anchors: Sequence[Ints],
    ) -> list[BlockPass]:
        return [
            fit_pass(block, table, start, slope, mine)
            for block, start, mine in zip(self.blocks, starts, anchors, strict=True)
        ]
