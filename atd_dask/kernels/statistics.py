"""Expected counts: how often each word is expected to come from each topic (x_jn of the paper).

They are stored by topic, with only the words that have mass, so neither the statistics of a block
nor their sum grows with topics × vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from atd_dask.kernels.jit import inner_kernel, kernel
from atd_dask.kernels.mixtures import divide_words
from atd_dask.kernels.model import Block, Floats, HeldTable, Ints, Proportions, Topics, WordTable
from atd_dask.kernels.threads import Threads
from atd_dask.kernels.workspaces import (
    load_document,
    longest_document,
    look_up_row,
    make_shared_workspace,
)

# j = topics, e = (topic, word) pairs with mass

# The words of a topic are marked in machine words of 64 bits. The lowest bit of one, times this de
# Bruijn number, has its index in the upper six bits, by way of `BIT_INDEX`.
BITS = 64
DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
BIT_INDEX = np.zeros(BITS, np.int64)
for _bit in range(BITS):
    BIT_INDEX[(int(DE_BRUIJN) << _bit) % 2**BITS >> 58] = _bit


# Sums that are taken at once, 2 MB.
SUMS_AT_ONCE = 2**18


class HeldCounts(Protocol):
    """Expected counts that may be elsewhere, with their totals here."""

    @property
    def tokens(self) -> Ints: ...

    @property
    def proportion(self) -> Floats: ...

    def ask(self, step: Callable[..., WordTable], *given: Any) -> HeldTable:
        """Return step(counts, *given), computed where the counts are."""


@dataclass(frozen=True, slots=True)
class ExpectedCounts:
    """Σ over documents of count × P(topic | word, document), and totals over the documents."""

    indptr: Ints  # j + 1
    words: Topics  # e, ascending within a topic
    mass: Floats  # e
    tokens: Ints  # j: L̄, the tokens of the documents in which the topic is active
    proportion: Floats  # j: Σ_d θ_jd

    @property
    def n_topics(self) -> int:
        return len(self.tokens)

    def ask(self, step: Callable[..., WordTable], *given: Any) -> WordTable:
        return step(self, *given)

    def totals(self) -> ExpectedCounts:
        """Return the same without the words."""
        indptr = np.zeros_like(self.indptr)
        return replace(self, indptr=indptr, words=self.words[:0], mass=self.mass[:0])

    def __sizeof__(self) -> int:
        arrays = (self.indptr, self.words, self.mass, self.tokens, self.proportion)
        return sum(array.nbytes for array in arrays)


@inner_kernel
def _add(word, mass, sums, marks):
    marks[word // BITS] |= np.uint64(1) << np.uint64(word % BITS)
    sums[word] += mass


@inner_kernel
def _take_sums(sums, marks, out_words, out_mass, size):
    """Move the sums of a topic to the end of what is returned, in the order of words; return how
    much that is now."""
    for index in range(len(marks)):
        left = marks[index]
        while left != np.uint64(0):
            lowest = left & (~left + np.uint64(1))
            left ^= lowest
            word = index * BITS + BIT_INDEX[(lowest * DE_BRUIJN) >> np.uint64(58)]
            out_words[size] = word
            out_mass[size] = sums[word]
            sums[word] = 0.0
            size += 1
        marks[index] = np.uint64(0)
    return size


@kernel
def _add_part(indptr, words, mass, first, last, sums, marks):
    """Add the counts of the topics from `first` to before `last` to sums with a row for each."""
    for j in range(first, last):
        for e in range(indptr[j], indptr[j + 1]):
            _add(words[e], mass[e], sums[j - first], marks[j - first])


@kernel
def _take_rows(sums, marks, first, last, indptr, words, mass):
    """Move the sums of these topics to the end of what is returned."""
    for j in range(first, last):
        indptr[j + 1] = _take_sums(sums[j - first], marks[j - first], words, mass, indptr[j])


@kernel
def list_by_topic(row_indptr, topics, n_topics):
    """List the rows, of documents or words, that have each topic, in order; and where in `topics`
    that is."""
    indptr = np.zeros(n_topics + 1, np.int64)
    for topic in topics:
        indptr[topic + 1] += 1
    for j in range(n_topics):
        indptr[j + 1] += indptr[j]
    ends = indptr[:-1].copy()
    rows = np.zeros(len(topics), np.int32)
    entries = np.zeros(len(topics), np.int64)
    for row in range(len(row_indptr) - 1):
        for k in range(row_indptr[row], row_indptr[row + 1]):
            rows[ends[topics[k]]] = row
            entries[ends[topics[k]]] = k
            ends[topics[k]] += 1
    return indptr, rows, entries


@kernel
def _divide_words(rows, table, theta_indptr, topics, theta):
    """Divide the words of documents with several topics among them: return the expected counts of
    the known words for each topic of a document, with room for all its words."""
    indptr, terms, counts = rows
    work = make_shared_workspace(table.n_topics, longest_document(indptr), np.int64(0), np.int64(0))
    size = 0
    for d in range(len(indptr) - 1):
        m = theta_indptr[d + 1] - theta_indptr[d]
        if m > 1:
            size += m * (indptr[d + 1] - indptr[d])
    expected = np.empty(size)
    size = 0
    for d in range(len(indptr) - 1):
        start = theta_indptr[d]
        m = theta_indptr[d + 1] - start
        if m <= 1:
            continue
        first, last = indptr[d], indptr[d + 1]
        n, _ = load_document(table, terms[first:last], counts[first:last], work)
        for a in range(m):
            work.active[a] = topics[start + a]
            work.theta[a] = theta[start + a]
            look_up_row(table, work, work.active[a], n)
        size = divide_words(work, expected, size, m, n, last - first)
    return expected


@kernel
def _list_places(indptr, theta_indptr, topics, n_topics):
    """List the documents of each topic, where each of them has it, and where the words begin that
    are divided; count the words of the documents before each topic."""
    by_topic, documents, entries = list_by_topic(theta_indptr, topics, n_topics)
    starts = np.zeros(len(topics), np.int64)
    size = 0
    for d in range(len(indptr) - 1):
        if theta_indptr[d + 1] - theta_indptr[d] > 1:
            for k in range(theta_indptr[d], theta_indptr[d + 1]):
                starts[k] = size
                size += indptr[d + 1] - indptr[d]
    sizes = np.zeros(n_topics + 1, np.int64)
    for j in range(n_topics):
        sizes[j + 1] = sizes[j]
        for e in range(by_topic[j], by_topic[j + 1]):
            sizes[j + 1] += indptr[documents[e] + 1] - indptr[documents[e]]
    return by_topic, documents, entries, starts, sizes


@kernel
def _collect_topics(rows, shared, places, theta_indptr, theta, expected, first, last):
    """Collect the counts of the topics from `first` to before `last`."""
    indptr, terms, counts = rows
    by_topic, documents, entries, starts, sizes = places
    n_words = len(shared)
    tokens = np.zeros(last - first, np.int64)
    proportion = np.zeros(last - first)
    sums = np.zeros(n_words)
    marks = np.zeros(n_words // BITS + 1, np.uint64)
    most = sizes[last] - sizes[first]
    out_indptr = np.zeros(last - first + 1, np.int64)
    out_words = np.empty(most, np.int32)
    out_mass = np.empty(most)
    size = 0
    for j in range(first, last):
        n_tokens = 0
        for e in range(by_topic[j], by_topic[j + 1]):
            d, k = documents[e], entries[e]
            proportion[j - first] += theta[k]
            alone = theta_indptr[d + 1] - theta_indptr[d] == 1
            i = starts[k]
            for place in range(indptr[d], indptr[d + 1]):
                word = terms[place]
                if shared[word] <= 0.0:
                    continue
                n_tokens += counts[place]
                if alone:
                    _add(word, float(counts[place]), sums, marks)
                else:
                    _add(word, expected[i], sums, marks)
                    i += 1
        tokens[j - first] = n_tokens
        size = _take_sums(sums, marks, out_words, out_mass, size)
        out_indptr[j - first + 1] = size
    if 4 * size < 3 * most:
        out_words, out_mass = out_words[:size].copy(), out_mass[:size].copy()
    return out_indptr, out_words[:size], out_mass[:size], tokens, proportion


def collect_block(
    block: Block,
    table: WordTable,
    proportions: Proportions,
    divided: Floats | None = None,
    threads: Threads | None = None,
) -> ExpectedCounts:
    """Do the E-step on a block. The words of documents with several topics may be `divided`
    already. Threads collect some topics each."""
    threads = threads or Threads()
    rows, (theta_indptr, topics, theta) = block.arrays, proportions.arrays
    if divided is None:
        divided = _divide_words(rows, table, theta_indptr, topics, theta)
    places = _list_places(block.indptr, theta_indptr, topics, table.n_topics)
    given = rows, table.shared, places, theta_indptr, theta, divided
    parts = threads.map(
        lambda bounds: ExpectedCounts(*_collect_topics(*given, *bounds)), threads.cut(places[-1])
    )
    return parts[0] if len(parts) == 1 else _join_topics(parts)


def _join_topics(parts: Sequence[ExpectedCounts]) -> ExpectedCounts:
    """Return the counts of all topics, from those of some topics each."""
    sizes = np.concatenate([np.diff(part.indptr) for part in parts])
    return ExpectedCounts(
        np.concatenate(([0], np.cumsum(sizes))),
        np.concatenate([part.words for part in parts]),
        np.concatenate([part.mass for part in parts]),
        np.concatenate([part.tokens for part in parts]),
        np.concatenate([part.proportion for part in parts]),
    )


def add_counts(parts: Sequence[ExpectedCounts], n_words: int) -> ExpectedCounts:
    """Return the sum over blocks, in order. A few topics are added at a time, so that the sums stay
    in the processor's caches."""
    n_topics, most = parts[0].n_topics, sum(len(part.words) for part in parts)
    n_rows = min(max(SUMS_AT_ONCE // max(n_words, 1), 1), n_topics)
    sums = np.zeros((n_rows, n_words))
    marks = np.zeros((n_rows, n_words // BITS + 1), np.uint64)
    indptr = np.zeros(n_topics + 1, np.int64)
    words, mass = np.empty(most, np.int32), np.empty(most)
    for first in range(0, n_topics, n_rows):
        last = min(first + n_rows, n_topics)
        for part in parts:
            _add_part(part.indptr, part.words, part.mass, first, last, sums, marks)
        _take_rows(sums, marks, first, last, indptr, words, mass)
    size = int(indptr[-1])
    tokens: Ints = np.sum([part.tokens for part in parts], axis=0)
    proportion = np.zeros(n_topics)
    for part in parts:
        proportion += part.proportion
    return ExpectedCounts(indptr, words[:size].copy(), mass[:size].copy(), tokens, proportion)


def count_words(block: Block, n_words: int) -> Ints:
    """Return how often each word occurs."""
    totals = np.zeros(n_words, dtype=np.int64)
    np.add.at(totals, block.terms, block.counts)
    return totals
