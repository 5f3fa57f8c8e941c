"""Expected counts: how often each word is expected to come from each topic (x_jn of the paper).

They are stored by topic, with only the words that have mass, so neither the statistics of some
documents nor their sum grows with topics × vocabulary.

Over documents they are added in fixed point. Whole numbers have the same sum in any order, so
documents may be cut among tasks, threads and workers in any way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

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

if TYPE_CHECKING:
    from atd_dask.kernels.word_switches import SharedModel, TopicWords

# j = topics, e = (topic, word) pairs with mass

# Bits of a sum, and the most of them that are behind the point.
SUM_BITS = 62
MOST_FRACTION_BITS = 48

SUMS_AT_ONCE = 2**18  # 2 MB


def count_fraction_bits(n_tokens: int) -> int:
    """Return how many bits a sum over so many tokens can have behind the point."""
    return min(SUM_BITS - int(n_tokens).bit_length(), MOST_FRACTION_BITS)


# Returns the words of some topics, from their counts, the shared model, and more.
WordStep = Callable[..., "TopicWords"]


class HeldCounts(Protocol):
    """Expected counts that may be elsewhere, with their totals here."""

    @property
    def tokens(self) -> Ints: ...

    @property
    def proportion(self) -> Floats: ...

    def ask(self, step: WordStep, shared: SharedModel, *given: Any) -> HeldTable:
        """Return the words of all topics: step(counts, shared, *given), computed where the counts
        are, for all topics or for some at a time."""


@dataclass(frozen=True, slots=True)
class ExpectedCounts:
    """Σ over documents of count × P(topic | word, document), and totals over the documents."""

    indptr: Ints  # j + 1
    words: Topics  # e, ascending within a topic
    mass: Floats  # e
    tokens: Ints  # j: L̄, the tokens of the documents in which the topic is active
    proportion: Floats  # j: Σ_d θ_jd
    first: int = 0  # the number of the first of these topics

    @property
    def n_topics(self) -> int:
        return len(self.tokens)

    def ask(self, step: WordStep, shared: SharedModel, *given: Any) -> WordTable:
        return step(self, shared, *given).table(shared)

    def __sizeof__(self) -> int:
        return _count_bytes(self)


@dataclass(frozen=True, slots=True)
class FixedCounts:
    """Expected counts in fixed point: whole numbers of 2^-bits."""

    indptr: Ints  # j + 1
    words: Topics  # e, ascending within a topic
    mass: NDArray[np.int64]  # e, above 0
    tokens: Ints  # j
    proportion: Ints  # j
    bits: int  # behind the point
    first: int = 0  # the number of the first of these topics

    @property
    def n_topics(self) -> int:
        return len(self.tokens)

    def part(self, first: int, last: int) -> FixedCounts:
        """Return the counts of the topics from `first` to before `last`."""
        begin, end = int(self.indptr[first]), int(self.indptr[last])
        return FixedCounts(
            self.indptr[first : last + 1] - begin,
            self.words[begin:end],
            self.mass[begin:end],
            self.tokens[first:last],
            self.proportion[first:last],
            self.bits,
            self.first + first,
        )

    def totals(self) -> FixedCounts:
        """Return the same without the words."""
        indptr = np.zeros_like(self.indptr)
        return replace(self, indptr=indptr, words=self.words[:0], mass=self.mass[:0])

    def expected(self) -> ExpectedCounts:
        unit = np.float64(2.0**-self.bits)
        return ExpectedCounts(
            self.indptr,
            self.words,
            self.mass * unit,
            self.tokens,
            self.proportion * unit,
            self.first,
        )

    def __sizeof__(self) -> int:
        return _count_bytes(self)


def _count_bytes(counts: ExpectedCounts | FixedCounts) -> int:
    arrays = counts.indptr, counts.words, counts.mass, counts.tokens, counts.proportion
    return sum(array.nbytes for array in arrays)


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


@inner_kernel
def _take_sums(sums, out_words, out_mass, size):
    """Move the sums of a topic to the end of what is returned, in the order of words; return how
    much that is now."""
    for word in range(len(sums)):
        if sums[word] != 0:
            out_words[size] = word
            out_mass[size] = sums[word]
            sums[word] = 0
            size += 1
    return size


@kernel
def _collect_topics(rows, shared, places, theta_indptr, theta, expected, bounds, bits):
    """Collect the counts of the topics within `bounds`, in fixed point."""
    first, last = bounds
    indptr, terms, counts = rows
    by_topic, documents, entries, starts, sizes = places
    n_words = len(shared)
    scale = float(np.int64(1) << bits)
    tokens = np.zeros(last - first, np.int64)
    proportion = np.zeros(last - first, np.int64)
    sums = np.zeros(n_words, np.int64)
    most = 0
    for j in range(first, last):
        most += min(sizes[j + 1] - sizes[j], n_words)
    out_indptr = np.zeros(last - first + 1, np.int64)
    out_words = np.empty(most, np.int32)
    out_mass = np.empty(most, np.int64)
    size = 0
    for j in range(first, last):
        n_tokens = np.int64(0)
        for e in range(by_topic[j], by_topic[j + 1]):
            d, k = documents[e], entries[e]
            proportion[j - first] += np.int64(theta[k] * scale + 0.5)
            alone = theta_indptr[d + 1] - theta_indptr[d] == 1
            i = starts[k]
            for place in range(indptr[d], indptr[d + 1]):
                word = terms[place]
                if shared[word] <= 0.0:
                    continue
                count = np.int64(counts[place])
                n_tokens += count
                if alone:
                    sums[word] += count << bits
                else:
                    sums[word] += np.int64(expected[i] * scale + 0.5)
                    i += 1
        tokens[j - first] = n_tokens
        size = _take_sums(sums, out_words, out_mass, size)
        out_indptr[j - first + 1] = size
    return out_indptr, out_words[:size], out_mass[:size], tokens, proportion


def collect_block(
    block: Block,
    table: WordTable,
    proportions: Proportions,
    divided: Floats | None = None,
    bits: int | None = None,
    threads: Threads | None = None,
) -> FixedCounts:
    """Do the E-step on a block. The words of documents with several topics may be `divided`
    already. Without `bits`, there are as many as the block allows. Threads collect some topics
    each."""
    threads = threads or Threads()
    rows, (theta_indptr, topics, theta) = block.arrays, proportions.arrays
    if divided is None:
        divided = _divide_words(rows, table, theta_indptr, topics, theta)
    if bits is None:
        bits = count_fraction_bits(int(block.counts.sum(dtype=np.int64)))
    places = _list_places(block.indptr, theta_indptr, topics, table.n_topics)
    given = rows, table.shared, places, theta_indptr, theta, divided
    parts = threads.map(
        lambda bounds: _collect_topics(*given, bounds, np.int64(bits)), threads.cut(places[-1])
    )
    indptr, words, mass, tokens, proportion = parts[0] if len(parts) == 1 else _join_topics(parts)
    return FixedCounts(indptr, words, mass, tokens, proportion, bits)


def _join_topics(parts: Sequence[Sequence[NDArray[Any]]]) -> Iterator[NDArray[Any]]:
    """Return the counts of all topics, from those of some topics each."""
    indptr, *others = zip(*parts, strict=True)
    sizes = np.concatenate([np.diff(part) for part in indptr])
    yield np.concatenate(([0], np.cumsum(sizes)))
    yield from map(np.concatenate, others)


@kernel
def _add_part(indptr, words, mass, first, last, sums):
    """Add the counts of the topics from `first` to before `last` to sums with a row for each."""
    for j in range(first, last):
        for e in range(indptr[j], indptr[j + 1]):
            sums[j - first, words[e]] += mass[e]


@kernel
def _take_rows(sums, first, last, indptr, words, mass):
    """Move the sums of these topics to the end of what is returned."""
    for j in range(first, last):
        indptr[j + 1] = _take_sums(sums[j - first], words, mass, indptr[j])


def add_counts(parts: Sequence[FixedCounts], n_words: int) -> FixedCounts:
    """Return the sum of the counts of several parts of a corpus. A few topics are added at a time,
    so that the sums stay in the processor's caches."""
    n_topics, most = parts[0].n_topics, sum(len(part.words) for part in parts)
    n_rows = min(max(SUMS_AT_ONCE // max(n_words, 1), 1), n_topics)
    sums = np.zeros((n_rows, n_words), np.int64)
    indptr = np.zeros(n_topics + 1, np.int64)
    words, mass = np.empty(most, np.int32), np.empty(most, np.int64)
    for first in range(0, n_topics, n_rows):
        last = min(first + n_rows, n_topics)
        for part in parts:
            _add_part(part.indptr, part.words, part.mass, first, last, sums)
        _take_rows(sums, first, last, indptr, words, mass)
    size = int(indptr[-1])
    tokens: Ints = np.sum([part.tokens for part in parts], axis=0)
    proportion: Ints = np.sum([part.proportion for part in parts], axis=0)
    bits, first = parts[0].bits, parts[0].first
    return FixedCounts(
        indptr, words[:size].copy(), mass[:size].copy(), tokens, proportion, bits, first
    )


def count_words(block: Block, n_words: int) -> Ints:
    """Return how often each word occurs."""
    totals = np.zeros(n_words, dtype=np.int64)
    np.add.at(totals, block.terms, block.counts)
    return totals
