"""Expected counts: how often each word is expected to come from each topic (x_jn of the paper).

They are stored by topic, with only the words that have mass, so neither the statistics of a block
nor their sum grows with topics × vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from atd_dask.kernels.jit import kernel
from atd_dask.kernels.mixtures import mix
from atd_dask.kernels.model import Block, Floats, Ints, Proportions, Topics, WordTable
from atd_dask.kernels.workspaces import (
    load_document,
    longest_document,
    look_up_row,
    make_workspace,
)

# j = topics, e = (topic, word) pairs with mass


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

    def __sizeof__(self) -> int:
        arrays = (self.indptr, self.words, self.mass, self.tokens, self.proportion)
        return sum(array.nbytes for array in arrays)


@kernel
def _sparse_rows(n_topics, n_words, keys_indptr, keys_words, keys_mass):
    """Add up runs of (word, mass) by topic; keys_indptr[j] lists the runs of topic j in order."""
    mass = np.zeros(n_words)
    seen = np.zeros(n_words, np.bool_)
    out_indptr = np.zeros(n_topics + 1, np.int64)
    out_words = np.zeros(len(keys_words), np.int32)
    out_mass = np.zeros(len(keys_words))
    size = 0
    for j in range(n_topics):
        for e in range(keys_indptr[j], keys_indptr[j + 1]):
            seen[keys_words[e]] = True
            mass[keys_words[e]] += keys_mass[e]
        for word in range(n_words):
            if seen[word]:
                out_words[size] = word
                out_mass[size] = mass[word]
                mass[word] = 0.0
                seen[word] = False
                size += 1
        out_indptr[j + 1] = size
    return out_indptr, out_words, out_mass


@kernel
def _collect_block(indptr, terms, counts, table, theta_indptr, topics, theta):
    n_topics = table.n_topics
    n_docs = len(indptr) - 1
    work = make_workspace(n_topics, longest_document(indptr))
    starts = np.zeros(n_topics + 1, np.int64)
    ends = np.zeros(n_topics, np.int64)
    tokens = np.zeros(n_topics, np.int64)
    proportion = np.zeros(n_topics)
    for d in range(n_docs):
        length = 0
        for i in range(indptr[d], indptr[d + 1]):
            if table.shared[terms[i]] > 0.0:
                length += counts[i]
        for k in range(theta_indptr[d], theta_indptr[d + 1]):
            starts[topics[k] + 1] += indptr[d + 1] - indptr[d]
            tokens[topics[k]] += length
            proportion[topics[k]] += theta[k]
    for j in range(n_topics):
        ends[j] = starts[j]
        starts[j + 1] += starts[j]
    words = np.zeros(starts[n_topics], np.int32)
    mass = np.zeros(starts[n_topics])
    for d in range(n_docs):
        first = indptr[d]
        last = indptr[d + 1]
        m = theta_indptr[d + 1] - theta_indptr[d]
        n, _ = load_document(table, terms[first:last], counts[first:last], work)
        for a in range(m):
            work.active[a] = topics[theta_indptr[d] + a]
            work.theta[a] = theta[theta_indptr[d] + a]
        if m > 1:
            for a in range(m):
                look_up_row(table, work, work.active[a], n)
            mix(work.rows, work.active, work.theta, work.p, m, n)
        for a in range(m):
            topic = work.active[a]
            end = ends[topic]
            for i in range(n):
                expected = work.counts[i]
                if m > 1:
                    expected *= work.theta[a] * work.rows[topic, i] / work.p[i]
                words[end] = work.words[i]
                mass[end] = expected
                end += 1
            ends[topic] = end
    return starts, ends, words, mass, tokens, proportion


@kernel
def _close_gaps(starts, ends, words, mass):
    size = 0
    indptr = np.zeros(len(starts), np.int64)
    for j in range(len(ends)):
        for e in range(starts[j], ends[j]):
            words[size] = words[e]
            mass[size] = mass[e]
            size += 1
        indptr[j + 1] = size
    return indptr, words[:size], mass[:size]


def collect_block(block: Block, table: WordTable, proportions: Proportions) -> ExpectedCounts:
    """Do the E-step on a block."""
    starts, ends, words, mass, tokens, proportion = _collect_block(
        *block.arrays, table, proportions.indptr, proportions.topics, proportions.theta
    )
    runs = _close_gaps(starts, ends, words, mass)
    return _add_runs(table.n_topics, table.n_words, runs, tokens, proportion)


def add_counts(parts: Sequence[ExpectedCounts], n_words: int) -> ExpectedCounts:
    """Return the sum over blocks, in order."""
    n_topics = parts[0].n_topics
    indptr = np.zeros(n_topics + 1, np.int64)
    np.cumsum(sum(np.diff(part.indptr) for part in parts), out=indptr[1:])
    words = np.concatenate([_by_topic(parts, j, "words") for j in range(n_topics)])
    mass = np.concatenate([_by_topic(parts, j, "mass") for j in range(n_topics)])
    tokens = np.zeros(n_topics, np.int64)
    proportion = np.zeros(n_topics)
    for part in parts:
        tokens += part.tokens
        proportion += part.proportion
    return _add_runs(n_topics, n_words, (indptr, words, mass), tokens, proportion)


def _add_runs(
    n_topics: int,
    n_words: int,
    runs: tuple[Ints, Topics, Floats],
    tokens: Ints,
    proportion: Floats,
) -> ExpectedCounts:
    indptr, words, mass = _sparse_rows(n_topics, n_words, *runs)
    size = indptr[-1]
    return ExpectedCounts(indptr, words[:size].copy(), mass[:size].copy(), tokens, proportion)


def _by_topic(parts: Sequence[ExpectedCounts], topic: int, name: str) -> Floats:
    return np.concatenate(
        [getattr(part, name)[part.indptr[topic] : part.indptr[topic + 1]] for part in parts]
    )


def count_words(block: Block, n_words: int) -> Ints:
    """Return how often each word occurs."""
    totals = np.zeros(n_words, dtype=np.int64)
    np.add.at(totals, block.terms, block.counts)
    return totals
