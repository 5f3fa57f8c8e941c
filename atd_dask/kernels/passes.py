"""One pass over the documents: the part of a training iteration that is distributed over blocks."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import numpy as np

from atd_dask.kernels.blocks import MemoryCorpus
from atd_dask.kernels.fitting import FREE, DividedWords, Fit, assign_block, fit_and_divide
from atd_dask.kernels.jit import kernel
from atd_dask.kernels.model import Block, Floats, HeldTable, Ints, Proportions, WordTable
from atd_dask.kernels.statistics import (
    FixedCounts,
    HeldCounts,
    WordStep,
    add_counts,
    collect_block,
    count_fraction_bits,
    count_words,
)
from atd_dask.kernels.threads import Threads

# Blocks that are fitted at a time, so that what is kept of frequent words serves all of them, and
# blocks whose counts are collected at a time.
FITTED_BLOCKS = 8
COLLECTED_BLOCKS = 64


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
class PassSums:
    """What a pass adds up over consecutive blocks."""

    counts: FixedCounts
    likelihoods: Floats  # blocks: log-likelihoods
    costs: Floats  # blocks: Σ_d log C(M, M_d) + ½ (M_d − 1) log(L_d/2π)
    n_active: int  # topics of documents
    n_docs: int  # documents with a known word
    anchors: Ints  # topics: the document with most of the topic, or -1
    anchor_weights: Floats  # topics: θ_jd L_d of that document, or -1

    def totals(self) -> PassSums:
        """Return the same without what grows with the vocabulary."""
        return replace(self, counts=self.counts.totals())

    def join_blocks(self) -> PassSums:
        """Return the same as if all blocks were one."""
        likelihoods, costs = np.array([add_up(self.likelihoods)]), np.array([add_up(self.costs)])
        return replace(self, likelihoods=likelihoods, costs=costs)

    def close(
        self,
        proportions: Proportions | ComputedProportions,
        expected: HeldCounts,
        n_specific: Ints | None = None,
    ) -> Pass:
        """Return the pass over a corpus, of which these are the sums."""
        return Pass(
            proportions,
            self.n_active,
            expected,
            add_up(self.likelihoods),
            add_up(self.costs),
            self.n_docs,
            self.anchors,
            self.anchor_weights,
            np.zeros(0, np.int64) if n_specific is None else n_specific,
        )

    def __sizeof__(self) -> int:
        return sys.getsizeof(self.counts) + self.likelihoods.nbytes + self.costs.nbytes


@dataclass(frozen=True, slots=True)
class Pass:
    """What a pass over a corpus returns."""

    proportions: Proportions | ComputedProportions
    n_active: int  # topics of documents
    expected: HeldCounts
    log_likelihood: float
    cost: float  # Σ_d log C(M, M_d) + ½ (M_d − 1) log(L_d/2π)
    n_docs: int  # documents with a known word
    anchors: Ints  # topics: the document with most of the topic, or -1
    anchor_weights: Floats  # topics: θ_jd L_d of that document, or -1
    n_specific: Ints  # topics: N_j of the words that were fitted; empty if none were

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
    """How the words of topics follow from the counts of a pass: step(counts, *given). The first of
    what is given is the shared model."""

    step: WordStep
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


@dataclass(frozen=True)
class Blocks:
    """Consecutive blocks of a corpus."""

    documents: Block
    starts: Ints  # the first document of each block, from 0, and the number of documents

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __sizeof__(self) -> int:
        return sys.getsizeof(self.documents)

    def parts(self, size: int) -> Iterator[Blocks]:
        """Yield `size` blocks at a time."""
        for index in range(0, max(len(self), 1), size):
            starts = self.starts[index : index + size + 1]
            documents = self.documents.part(int(starts[0]), int(starts[-1]))
            yield Blocks(documents, starts - starts[0])


def assign_blocks(
    blocks: Blocks, table: WordTable, bits: int, threads: Threads | None = None
) -> tuple[Proportions, PassSums]:
    """Give every document its best topic. Sums have so many bits behind the point."""
    threads = threads or Threads()
    block = blocks.documents
    parts = threads.map(
        lambda bounds: assign_block(block.part(*bounds), table), threads.cut(block.indptr)
    )
    proportions = Proportions.concatenate(parts)
    none = np.zeros(len(block))
    divided = DividedWords(none[:0], np.zeros(len(block), np.int64))
    figures = none, none
    return proportions, _add_blocks(blocks, table, proportions, divided, figures, bits, threads)


def fit_blocks(
    blocks: Blocks,
    table: WordTable,
    start: Proportions,
    slope: Floats,
    anchors: Ints,
    bits: int,
    threads: Threads | None = None,
) -> tuple[Proportions, PassSums]:
    """Find the switches and proportions of every document, then the expected counts, with so many
    bits behind the point. `anchors` counts documents from the first one.

    Threads fit some documents each, in which they may cut a block.
    """
    threads = threads or Threads()
    fits, sums, first = [], [], 0
    for some in blocks.parts(COLLECTED_BLOCKS):
        mine, words = [], []
        for few in some.parts(FITTED_BLOCKS):
            last = first + len(few.documents)
            inside = anchors_in(anchors, first, last)
            few_start = start.part(first, last)
            fit, divided = _fit_together(few.documents, table, few_start, slope, inside, threads)
            mine.append(fit)
            words.append(divided)
            first = last
        fit, divided = Fit.concatenate(mine), DividedWords.concatenate(words)
        figures = fit.log_likelihoods, fit.costs
        sums.append(_add_blocks(some, table, fit.proportions, divided, figures, bits, threads))
        fits.append(fit.proportions)
    whole = sums[0] if len(sums) == 1 else add_sums(sums, table.n_words)
    return Proportions.concatenate(fits), whole


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
    fits, words = zip(*parts, strict=True)
    return Fit.concatenate(fits), DividedWords.concatenate(words)


def _add_blocks(
    blocks: Blocks,
    table: WordTable,
    proportions: Proportions,
    divided: DividedWords,
    figures: tuple[Floats, Floats],
    bits: int,
    threads: Threads,
) -> PassSums:
    """Return the sums over blocks. `figures` are the log-likelihoods and the costs of documents."""
    block = blocks.documents
    words = divided.part(0, len(block))
    counts = collect_block(block, table, proportions, words, bits, threads)
    anchors, weights = _find_anchors(
        table.n_topics, block.indptr, block.counts, *proportions.arrays
    )
    likelihoods, costs = (_add_each(values, blocks.starts) for values in figures)
    return PassSums(
        counts,
        likelihoods,
        costs,
        len(proportions.topics),
        int(np.count_nonzero(np.diff(proportions.indptr))),
        np.where(anchors < 0, -1, anchors + block.start),
        weights,
    )


@kernel
def add_up(values):
    """Return the sum from first to last, the same on every machine."""
    total = 0.0
    for value in values:
        total += value
    return total


@kernel
def _add_each(values, starts):
    """Return the sum over each block, which begin at `starts`."""
    sums = np.zeros(len(starts) - 1)
    for index in range(len(sums)):
        for d in range(starts[index], starts[index + 1]):
            sums[index] += values[d]
    return sums


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


def add_sums(parts: Sequence[PassSums], n_words: int) -> PassSums:
    """Return the sums over parts of a corpus, in the order of its blocks."""
    weights = np.stack([part.anchor_weights for part in parts])
    home = weights.argmax(axis=0)
    topics = np.arange(len(home))
    return PassSums(
        add_counts([part.counts for part in parts], n_words),
        np.concatenate([part.likelihoods for part in parts]),
        np.concatenate([part.costs for part in parts]),
        sum(part.n_active for part in parts),
        sum(part.n_docs for part in parts),
        np.stack([part.anchors for part in parts])[home, topics],
        weights[home, topics],
    )


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

    corpus: MemoryCorpus
    threads: Threads = field(default_factory=Threads)

    @property
    def n_words(self) -> int:
        return self.corpus.n_words

    @cached_property
    def blocks(self) -> Blocks:
        return Blocks(self.corpus.whole, self.corpus.block_starts)

    @cached_property
    def bits(self) -> int:
        return count_fraction_bits(int(self.corpus.whole.counts.sum(dtype=np.int64)))

    def take(self, rows: Ints) -> Block:
        return self.corpus.whole.take(rows)

    def over(self, corpus: MemoryCorpus) -> AbstractContextManager[Passes]:
        return nullcontext(replace(self, corpus=corpus))

    def count_words(self) -> Ints:
        return count_words(self.corpus.whole, self.n_words)

    def assign(self, table: HeldTable) -> Pass:
        proportions, sums = assign_blocks(self.blocks, table.read(), self.bits, self.threads)
        return sums.close(proportions, sums.counts.expected())

    def fit(self, table: HeldTable, start: Start, lda: bool, likely: NextWords) -> Pass:
        words = table.read()
        slope = slope_topics(words, start.tokens, lda)
        before = read_proportions(start.proportions, self.blocks.starts)
        proportions, sums = fit_blocks(
            self.blocks, words, before, slope, start.anchors, self.bits, self.threads
        )
        return sums.close(proportions, sums.counts.expected(), words.specific_words())

    def forget(self) -> None:
        pass
