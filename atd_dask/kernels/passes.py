"""One pass over the documents: the part of a training iteration that is distributed over blocks."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import numpy as np

from atd_dask.kernels.blocks import MemoryCorpus
from atd_dask.kernels.fitting import FREE, DividedWords, Fit, assign_block, fit_and_divide
from atd_dask.kernels.jit import kernel
from atd_dask.kernels.model import Block, Floats, HeldTable, Ints, Proportions, WordTable
from atd_dask.kernels.statistics import (
    ExpectedCounts,
    HeldCounts,
    add_counts,
    collect_block,
    count_words,
)
from atd_dask.kernels.threads import Threads

# How many passes are added at a time. The sum over a corpus is a tree over its blocks in order. Its
# shape depends only on the number of blocks, so any worker can add any part of it.
BRANCHES = 8

FITTED_BLOCKS = 8  # at a time


class HeldProportions(Protocol):
    """The proportions of a corpus, held elsewhere and read block by block."""

    def part(self, start: int, stop: int) -> Proportions:
        """Return those of one block, with the documents from `start` to before `stop`."""


@runtime_checkable
class ComputedProportions(HeldProportions, Protocol):
    """Proportions that a pass left where they were computed, and that can be saved there."""

    def save(self, save: Callable[[int, Proportions], None]) -> list[int]:
        """Call `save` where they are, with the first document of each block; return these
        documents."""


@dataclass(frozen=True, slots=True)
class Pass:
    """What a pass over documents returns, for a block or for a whole corpus."""

    proportions: Proportions | ComputedProportions
    n_active: int  # topics of documents
    expected: HeldCounts
    log_likelihood: float
    cost: float  # Σ_d log C(M, M_d) + ½ (M_d − 1) log(L_d/2π)
    n_docs: int  # documents with a known word
    anchors: Ints  # topics: the document with most of the topic, or -1
    anchor_weights: Floats  # topics: θ_jd L_d of that document, or -1
    n_specific: Ints  # topics: N_j of the words that a corpus was fitted to; empty for other passes

    def __sizeof__(self) -> int:
        return sys.getsizeof(self.proportions) + sys.getsizeof(self.expected)


@dataclass(frozen=True, slots=True)
class Start:
    """What a fit needs from the pass before it."""

    proportions: Proportions | HeldProportions
    tokens: Ints  # topics: L̄
    anchors: Ints  # topics

    @classmethod
    def after(cls, result: Pass) -> Start:
        return cls(result.proportions, result.expected.tokens, result.anchors)


@dataclass(frozen=True, slots=True)
class NextWords:
    """How the words of topics follow from the counts of a pass: step(counts, *given)."""

    step: Callable[..., WordTable]
    given: Sequence[Any]

    def ask(self, result: Pass) -> HeldTable:
        return result.expected.ask(self.step, *self.given)

    def is_same(self, other: NextWords) -> bool:
        """Return whether another one has the same step and is given the same objects."""
        mine, others = (self.step, *self.given), (other.step, *other.given)
        return len(mine) == len(others) and all(map(operator.is_, mine, others))


def slope_topics(table: WordTable, tokens: Ints, lda: bool) -> Floats:
    """Return what a token of a document costs in each topic, ½ N_j/L̄_j; nothing for LDA."""
    if lda:
        return np.full(table.n_topics, FREE)
    slope: Floats = 0.5 * table.specific_words() / np.maximum(tokens, 1)
    return slope


def split_rows(rows: Ints, starts: Ints) -> list[Ints]:
    """Return the ascending rows of a corpus that are in each of its blocks, counted from there."""
    parts = np.split(rows, np.searchsorted(rows, starts[1:-1]))
    return [part - start for part, start in zip(parts, starts[:-1].tolist(), strict=True)]


class Passes(Protocol):
    """Runs a step on every block of a corpus, and joins the results in the order of blocks."""

    @property
    def n_words(self) -> int: ...

    def count_words(self) -> Ints: ...

    def take(self, rows: Ints) -> Block:
        """Return documents of the corpus by their ascending rows."""

    def over(self, corpus: MemoryCorpus) -> AbstractContextManager[Passes]:
        """Return passes of the same kind over other documents."""

    def assign(self, table: HeldTable) -> Pass: ...

    def fit(self, table: HeldTable, start: Start, lda: bool, likely: NextWords) -> Pass:
        """Fit all documents. A cluster goes on to the words that are `likely` to be asked for, and
        to the fit after these, until it is told to `forget` that."""

    def forget(self) -> None:
        """Drop what was done ahead of the last fit."""


def assign_pass(block: Block, table: WordTable, threads: Threads | None = None) -> Pass:
    """Give every document its best topic."""
    threads = threads or Threads()
    parts = threads.map(
        lambda bounds: assign_block(block.part(*bounds), table), threads.cut(block.indptr)
    )
    proportions = Proportions.concatenate(parts)
    expected = collect_block(block, table, proportions, threads=threads)
    return _close(block, proportions, expected, 0.0, 0.0)


def fit_passes(
    blocks: Sequence[Block],
    table: WordTable,
    start: Proportions,
    slope: Floats,
    anchors: Ints,
    threads: Threads | None = None,
) -> list[Pass]:
    """Find the switches and proportions of every document of consecutive blocks, then the expected
    counts of each block. `anchors` counts documents from the first one.

    A few blocks are fitted at a time, so that what is kept of frequent words serves all of them.
    Threads fit some documents each, in which they may cut a block.
    """
    threads = threads or Threads()
    starts = begin_blocks(blocks)
    passes = []
    for index in range(0, len(blocks), FITTED_BLOCKS):
        mine = blocks[index : index + FITTED_BLOCKS]
        bounds = starts[index : index + len(mine) + 1]
        first, last = int(bounds[0]), int(bounds[-1])
        fit, divided = _fit_together(
            mine[0] if len(mine) == 1 else Block.concatenate(mine),
            table,
            start.part(first, last),
            slope,
            anchors_in(anchors, first, last),
            threads,
        )
        for block, (begin, end) in zip(mine, pairwise((bounds - first).tolist()), strict=True):
            proportions = fit.proportions.part(begin, end)
            words = divided.part(begin, end)
            expected = collect_block(block, table, proportions, words, threads)
            likelihood, cost = add_up(fit.log_likelihoods[begin:end]), add_up(fit.costs[begin:end])
            passes.append(_close(block, proportions, expected, likelihood, cost))
    return passes


def _fit_together(
    block: Block,
    table: WordTable,
    start: Proportions,
    slope: Floats,
    anchors: Ints,
    threads: Threads,
) -> tuple[Fit, DividedWords]:
    """Fit every document of a block, and divide its words among its topics."""

    def fit(bounds: tuple[int, int]) -> tuple[Fit, DividedWords]:
        inside = anchors_in(anchors, *bounds)
        return fit_and_divide(block.part(*bounds), table, start.part(*bounds), slope, inside)

    parts = threads.map(fit, threads.cut(block.indptr))
    if len(parts) == 1:
        return parts[0]
    counts = [divided.part(0, len(divided.ends)) for _, divided in parts]
    sizes = np.cumsum([0, *map(len, counts[:-1])]).tolist()
    ends = [divided.ends + size for (_, divided), size in zip(parts, sizes, strict=True)]
    divided = DividedWords(np.concatenate(counts), np.concatenate(ends))
    return Fit.concatenate([fit for fit, _ in parts]), divided


def begin_blocks(blocks: Sequence[Block]) -> Ints:
    """Return the first document of each of these consecutive blocks, counted from that of the first
    one, and the number of documents."""
    return np.concatenate(([0], np.cumsum([len(block) for block in blocks])))


def _close(
    block: Block,
    proportions: Proportions,
    expected: ExpectedCounts,
    log_likelihood: float,
    cost: float,
) -> Pass:
    anchors, weights = _find_anchors(
        expected.n_topics, block.indptr, block.counts, *proportions.arrays
    )
    n_docs = int(np.count_nonzero(np.diff(proportions.indptr)))
    n_active = len(proportions.topics)
    none = np.zeros(0, np.int64)
    return Pass(
        proportions, n_active, expected, log_likelihood, cost, n_docs, anchors, weights, none
    )


@kernel
def add_up(values):
    """Return the sum from first to last, the same on every machine."""
    total = 0.0
    for value in values:
        total += value
    return total


@kernel
def _find_anchors(n_topics, indptr, counts, theta_indptr, topics, theta):
    anchors = np.full(n_topics, -1)
    weights = np.full(n_topics, -1.0)
    for d in range(len(indptr) - 1):
        length = 0
        for i in range(indptr[d], indptr[d + 1]):
            length += counts[i]
        for k in range(theta_indptr[d], theta_indptr[d + 1]):
            weight = theta[k] * length
            if weight > weights[topics[k]]:
                anchors[topics[k]] = d
                weights[topics[k]] = weight
    return anchors, weights


def place_anchors(part: Pass, start: int) -> Pass:
    """Return the pass over a block with documents numbered as in the corpus; the block begins at
    `start`."""
    return replace(part, anchors=np.where(part.anchors < 0, -1, part.anchors + start))


def add_passes(parts: Sequence[Pass], n_words: int) -> Pass:
    """Return the sum of passes over parts of a corpus, in order, without the proportions."""
    log_likelihood = cost = 0.0
    counts = []
    for part in parts:
        assert isinstance(part.expected, ExpectedCounts)
        counts.append(part.expected)
        log_likelihood += part.log_likelihood
        cost += part.cost
    weights = np.stack([part.anchor_weights for part in parts])
    home = weights.argmax(axis=0)
    topics = np.arange(len(home))
    return Pass(
        Proportions.empty(0),
        sum(part.n_active for part in parts),
        add_counts(counts, n_words),
        log_likelihood,
        cost,
        sum(part.n_docs for part in parts),
        np.stack([part.anchors for part in parts])[home, topics],
        weights[home, topics],
        parts[0].n_specific,
    )


def add_in_tree(parts: Sequence[Pass], n_words: int) -> Pass:
    """Return the sum of passes over the blocks of a corpus, or of a subtree of it.

    Sums are taken from the left, so the first one of a level is the same if it is part of the next.
    """

    def add_neighbours(some: Sequence[Pass]) -> Pass:
        return add_passes(some, n_words) if len(some) > 1 else some[0]

    first, rest = list(parts[:BRANCHES]), parts[BRANCHES:]
    while rest:
        starts = range(0, len(rest), BRANCHES)
        level = [add_neighbours(rest[start : start + BRANCHES]) for start in starts]
        first += level[: BRANCHES - 1]
        rest = level[BRANCHES - 1 :]
    return add_neighbours(first)


def join_passes(parts: Sequence[Pass], starts: Ints, n_words: int) -> Pass:
    """Return the pass over a corpus whose blocks begin at the documents `starts`."""
    proportions = []
    for part in parts:
        assert isinstance(part.proportions, Proportions)
        proportions.append(part.proportions)
    pairs = zip(parts, starts[: len(parts)].tolist(), strict=True)
    whole = add_in_tree([place_anchors(part, start) for part, start in pairs], n_words)
    return replace(whole, proportions=Proportions.concatenate(proportions))


def read_proportions(held: Proportions | HeldProportions, starts: Ints) -> Proportions:
    """Return the proportions of blocks that begin at these documents."""
    if isinstance(held, Proportions):
        return held.part(int(starts[0]), int(starts[-1]))
    return Proportions.concatenate([held.part(*bounds) for bounds in pairwise(starts.tolist())])


def anchors_in(anchors: Ints, start: int, stop: int) -> Ints:
    """Return the anchors of a corpus as a block numbers them: -1 for those in other blocks."""
    inside = (anchors >= start) & (anchors < stop)
    return np.where(inside, anchors - start, -1)


@dataclass(frozen=True)
class LocalPasses:
    """Runs all blocks in this process, one after another; several threads share each of them."""

    blocks: Sequence[Block]
    n_words: int
    threads: Threads = field(default_factory=Threads)

    @property
    def starts(self) -> Ints:
        return begin_blocks(self.blocks)

    def take(self, rows: Ints) -> Block:
        pairs = zip(self.blocks, split_rows(rows, self.starts), strict=True)
        return Block.concatenate([block.take(mine) for block, mine in pairs])

    def over(self, corpus: MemoryCorpus) -> AbstractContextManager[Passes]:
        return nullcontext(replace(self, blocks=corpus.blocks(), n_words=corpus.n_words))

    def count_words(self) -> Ints:
        totals: Ints = np.sum([count_words(b, self.n_words) for b in self.blocks], axis=0)
        return totals

    def assign(self, table: HeldTable) -> Pass:
        words = table.read()
        parts = [assign_pass(block, words, self.threads) for block in self.blocks]
        return join_passes(parts, self.starts, self.n_words)

    def fit(self, table: HeldTable, start: Start, lda: bool, likely: NextWords) -> Pass:
        words, starts = table.read(), self.starts
        slope = slope_topics(words, start.tokens, lda)
        whole = read_proportions(start.proportions, starts)
        parts = fit_passes(self.blocks, words, whole, slope, start.anchors, self.threads)
        return replace(join_passes(parts, starts, self.n_words), n_specific=words.specific_words())

    def forget(self) -> None:
        pass
