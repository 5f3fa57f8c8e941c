"""The words of each topic: the switches u that make a word topic-specific, and probabilities."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from atd_dask.kernels.jit import enlarge, inner_kernel, kernel
from atd_dask.kernels.model import Floats, Ints, Topics, WordTable
from atd_dask.kernels.statistics import ExpectedCounts, list_by_topic
from atd_dask.kernels.word_sweeps import (
    SwitchCost,
    TopicCounts,
    UnsureWords,
    entropy_cost,
    sweep_topic,
    switch_costs,
)

# j = topics, n = words

# The count of a word in a topic in which it never occurs: next to nothing during training, so that
# the BIC is that of the equation, and half a token for new documents.
LEAST_MASS = 1e-15
LEAST_MASS_OF_NEW = 0.5
MAX_SWEEPS = 20


class SharedModel(NamedTuple):
    """β₀, and the words ordered by it."""

    probabilities: Floats  # n
    by_probability: Ints  # n: words, the most frequent first
    rank: Ints  # n

    @classmethod
    def from_counts(cls, totals: Ints) -> SharedModel:
        return cls.from_probabilities(totals / max(int(totals.sum()), 1))

    @classmethod
    def from_probabilities(cls, probabilities: Floats) -> SharedModel:
        order = np.argsort(-probabilities, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        return cls(probabilities, order, rank)


@inner_kernel
def list_words(on, listed, size):
    """Append the words that are on to a list, in order, and return its size."""
    for word in range(len(on)):
        if on[word]:
            listed[size] = word
            size += 1
    return size


@kernel
def _switch_words(expected, model, on_indptr, on_words, weight, margins, unsure):
    """Sweep over the switches of every topic, but of those that `margins` from the last time show
    to be settled; return the words that are on."""
    indptr, words, mass, tokens = expected
    n_topics = len(tokens)
    n_words = len(model.probabilities)
    places = n_topics * n_words
    n_on = np.int64(len(on_words))
    new_indptr = np.zeros(n_topics + 1, np.int64)
    new_words = np.zeros(n_on + n_words, np.int32)
    size = np.int64(0)
    on = np.zeros(n_words, np.bool_)
    x = np.zeros(n_words)
    for j in range(n_topics):
        if size + n_words > len(new_words):
            new_words = enlarge(new_words, size, n_words)
        mine = on_words[on_indptr[j] : on_indptr[j + 1]]
        cost = SwitchCost(0.5 * math.log(tokens[j] / (2 * math.pi)), places, weight)
        less, now = entropy_cost(n_on - 1, places), entropy_cost(n_on, places)
        cost_on, cost_off = switch_costs(cost, less, now, entropy_cost(n_on + 1, places))
        changed = False
        if margins[j, 0] > cost_on or margins[j, 1] < cost_off:
            first, last = indptr[j], indptr[j + 1]
            for e in range(first, last):
                x[words[e]] = mass[e]
            for word in mine:
                on[word] = True
            few = UnsureWords(
                unsure.places[first:last],
                unsure.logs[first:last],
                unsure.sizes[j : j + 1],
                unsure.windows[4 * j : 4 * j + 4],
                unsure.absent,
            )
            topic = TopicCounts(words[first:last], mine, x, on)
            sweeps = np.int64(MAX_SWEEPS)
            n_on, changed = sweep_topic(topic, model, cost, n_on, margins[j], few, sweeps)
            for e in range(first, last):
                x[words[e]] = 0.0
        if changed:
            start = size
            size = list_words(on, new_words, size)
            for e in range(start, size):
                on[new_words[e]] = False
        else:
            for word in mine:
                new_words[size] = word
                size += 1
                on[word] = False
        new_indptr[j + 1] = size
    return new_indptr, new_words


@kernel
def _specific_probabilities(indptr, words, mass, shared, on_indptr, on_words, least):
    """Return β of the words that are on: x / μ with μ = X / R."""
    x = np.zeros(len(shared))
    probabilities = np.zeros(len(on_words))
    for j in range(len(indptr) - 1):
        for e in range(indptr[j], indptr[j + 1]):
            x[words[e]] = mass[e]
        all_mass = 0.0
        all_shared = 0.0
        for e in range(on_indptr[j], on_indptr[j + 1]):
            all_mass += max(x[on_words[e]], least)
            all_shared += shared[on_words[e]]
        for e in range(on_indptr[j], on_indptr[j + 1]):
            probabilities[e] = max(x[on_words[e]], least) * (all_shared / all_mass)
        for e in range(indptr[j], indptr[j + 1]):
            x[words[e]] = 0.0
    return probabilities


@kernel
def _by_word(n_words, on_indptr, on_words, probabilities):
    indptr = np.zeros(n_words + 1, np.int64)
    for e in range(len(on_words)):
        indptr[on_words[e] + 1] += 1
    for n in range(n_words):
        indptr[n + 1] += indptr[n]
    ends = np.zeros(n_words, np.int64)
    for n in range(n_words):
        ends[n] = indptr[n]
    topics = np.zeros(len(on_words), np.int32)
    specific = np.zeros(len(on_words))
    for j in range(len(on_indptr) - 1):
        for e in range(on_indptr[j], on_indptr[j + 1]):
            word = on_words[e]
            topics[ends[word]] = j
            specific[ends[word]] = probabilities[e]
            ends[word] += 1
    return indptr, topics, specific


@kernel
def _compare(shared, indptr, probabilities):
    excess = np.zeros(len(probabilities))
    log_ratio = np.zeros(len(probabilities))
    for word in range(len(shared)):
        for k in range(indptr[word], indptr[word + 1]):
            excess[k] = probabilities[k] - shared[word]
            log_ratio[k] = math.log(probabilities[k] / shared[word])
    return excess, log_ratio


def complete_table(
    n_topics: int, shared: Floats, indptr: Ints, topics: Topics, probabilities: Floats
) -> WordTable:
    """Return a table with the derived columns filled in."""
    columns = _compare(shared, indptr, probabilities)
    return WordTable(n_topics, shared, indptr, topics, probabilities, *columns)


@dataclass(frozen=True, slots=True)
class WordSwitches:
    """The words that are topic-specific (u = 1), by topic."""

    indptr: Ints  # j + 1
    words: Topics  # on, ascending within a topic

    @classmethod
    def occurring(cls, expected: ExpectedCounts) -> WordSwitches:
        """Switch on every word with mass in a topic."""
        return cls(expected.indptr, expected.words)

    @classmethod
    def every(cls, n_topics: int, shared: SharedModel) -> WordSwitches:
        """Switch on every word that occurs at all, in every topic."""
        words = np.flatnonzero(shared.probabilities).astype(np.int32)
        return cls(np.arange(n_topics + 1) * len(words), np.tile(words, n_topics))

    @classmethod
    def of(cls, table: WordTable) -> WordSwitches:
        indptr, words, _ = list_by_topic(table.indptr, table.topics, table.n_topics)
        return cls(indptr, words)


def switch_words(
    expected: ExpectedCounts,
    shared: SharedModel,
    switches: WordSwitches,
    entropy_weight: float = 1.0,
) -> WordSwitches:
    """Sweep over the switches u, starting from `switches`; each flip lowers the expected BIC.

    The topics share the cost of encoding which words are on, so they are visited again until none
    of them changes.
    """
    columns = (expected.indptr, expected.words, expected.mass, expected.tokens)
    margins = np.full((expected.n_topics, 2), np.inf)
    n_words = len(shared.probabilities)
    unsure = UnsureWords.make(expected.n_topics, len(expected.words), n_words)
    for _ in range(MAX_SWEEPS):
        indptr, words = _switch_words(
            columns, shared, switches.indptr, switches.words, entropy_weight, margins, unsure
        )
        words = words[: indptr[-1]].copy()
        settled = np.array_equal(indptr, switches.indptr) and np.array_equal(words, switches.words)
        switches = WordSwitches(indptr, words)
        if settled:
            break
    return switches


def estimate_words(
    expected: ExpectedCounts,
    shared: SharedModel,
    switches: WordSwitches,
    least: float = LEAST_MASS,
) -> WordTable:
    """Estimate the word probabilities that maximise the expected log-likelihood, given the
    switches; every word that is on counts at least `least`."""
    specific = _specific_probabilities(
        expected.indptr,
        expected.words,
        expected.mass,
        shared.probabilities,
        switches.indptr,
        switches.words,
        least,
    )
    columns = _by_word(len(shared.probabilities), switches.indptr, switches.words, specific)
    return complete_table(expected.n_topics, shared.probabilities, *columns)


def add_topic(table: WordTable, specific: NDArray[np.bool_], probabilities: Floats) -> WordTable:
    """Return a table with one more topic, which has its own probabilities for `specific` words."""
    new = np.flatnonzero(specific & (table.shared > 0))
    old = np.repeat(np.arange(table.n_words), np.diff(table.indptr))
    words = np.concatenate((old, new))
    topics = np.concatenate((table.topics, np.full(len(new), table.n_topics, np.int32)))
    # The new topic has the largest number, so it comes last within a word.
    order = np.argsort(words, kind="stable")
    sizes = np.bincount(words, minlength=table.n_words)
    return complete_table(
        table.n_topics + 1,
        table.shared,
        np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes))),
        topics[order],
        np.concatenate((table.probabilities, probabilities[new]))[order],
    )


def make_table(shared: Floats, specific: NDArray[np.bool_], probabilities: Floats) -> WordTable:
    """Make a table from dense arrays, topics × words; a probability of 0 becomes 1e-100."""
    topics, words = np.nonzero(specific & (shared > 0))
    indptr = np.searchsorted(topics, np.arange(len(specific) + 1))
    chosen = np.maximum(probabilities[topics, words], 1e-100)
    columns = _by_word(len(shared), indptr, words.astype(np.int32), chosen)
    return complete_table(len(specific), shared, *columns)
