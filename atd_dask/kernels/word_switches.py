"""The words of each topic: the switches u that make a word topic-specific, and probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
)

# j = topics, n = words

# The count of a word in a topic in which it never occurs: next to nothing during training, so that
# the BIC is that of the equation, and half a token for new documents.
LEAST_MASS = 1e-15
LEAST_MASS_OF_NEW = 0.5
MAX_SWEEPS = 50  # over a topic; few are needed


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
def _switch_words(expected, model, on_indptr, on_words, encoding, weight, unsure):
    """Sweep over the switches of every topic; return the words that are on."""
    indptr, words, mass, tokens = expected
    n_topics = len(tokens)
    n_words = len(model.probabilities)
    new_indptr = np.zeros(n_topics + 1, np.int64)
    new_words = np.zeros(len(on_words) + n_words, np.int32)
    size = np.int64(0)
    on = np.zeros(n_words, np.bool_)
    x = np.zeros(n_words)
    for j in range(n_topics):
        if size + n_words > len(new_words):
            new_words = enlarge(new_words, size, n_words)
        first, last = indptr[j], indptr[j + 1]
        mine = on_words[on_indptr[j] : on_indptr[j + 1]]
        base = 0.5 * math.log(tokens[j] / (2 * math.pi))
        cost = SwitchCost(base + encoding, n_words, weight)
        for e in range(first, last):
            x[words[e]] = mass[e]
        for word in mine:
            on[word] = True
        topic = TopicCounts(words[first:last], mine, x, on)
        n_on, sweeps = np.int64(len(mine)), np.int64(MAX_SWEEPS)
        _, changed = sweep_topic(topic, model, cost, n_on, unsure, sweeps)
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
    return new_indptr, new_words[:size].copy()


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
    def of(cls, table: WordTable | TopicWords) -> WordSwitches:
        if isinstance(table, TopicWords):
            return cls(table.indptr, table.words)
        indptr, words, _ = list_by_topic(table.indptr, table.topics, table.n_topics)
        return cls(indptr, words)

    def part(self, first: int, last: int) -> WordSwitches:
        """Return those of the topics from `first` to before `last`."""
        begin, end = self.indptr[first], self.indptr[last]
        return WordSwitches(self.indptr[first : last + 1] - begin, self.words[begin:end])


@dataclass(frozen=True, slots=True)
class TopicWords:
    """The words of some topics that are on, and their probabilities, by topic."""

    indptr: Ints  # j + 1
    words: Topics  # on, ascending within a topic
    probabilities: Floats  # on

    @property
    def n_topics(self) -> int:
        return len(self.indptr) - 1

    def specific_words(self) -> Ints:
        """Return N_j, the number of specific words of each topic."""
        return np.diff(self.indptr)

    def table(self, shared: SharedModel) -> WordTable:
        columns = _by_word(len(shared.probabilities), self.indptr, self.words, self.probabilities)
        return complete_table(self.n_topics, shared.probabilities, *columns)

    @classmethod
    def concatenate(cls, parts: Sequence[TopicWords]) -> TopicWords:
        """Return the words of all topics of these parts."""
        sizes = np.concatenate([np.diff(part.indptr) for part in parts])
        return cls(
            np.concatenate(([0], np.cumsum(sizes))),
            np.concatenate([part.words for part in parts]),
            np.concatenate([part.probabilities for part in parts]),
        )

    def __sizeof__(self) -> int:
        return self.indptr.nbytes + self.words.nbytes + self.probabilities.nbytes


# The words of all topics, by word or by topic.
WordsOfTopics = WordTable | TopicWords


def encoding_cost(n_on: int, places: int) -> float:
    """Return the cost of encoding one more word, in nats, if `n_on` of all places are on; or of the
    last one, if all are.

    The cost of encoding is concave in the number of words. So several words together cost no more
    than each of them alone, and if some are switched off, they save at least as much.
    """
    n_on = min(n_on, places - 1)
    more: float = entropy_cost(n_on + 1, places) - entropy_cost(n_on, places)
    return more


def switch_words(
    expected: ExpectedCounts,
    shared: SharedModel,
    switches: WordSwitches,
    encoding: float = 0.0,
    weight: float = 0.0,
) -> WordSwitches:
    """Sweep over the switches u of some topics, starting from `switches`.

    Every word that is on costs `encoding`, so topics do not depend on each other. With the cost of
    one more word, the expected BIC falls by at least as much as each flip says. With a `weight` of
    the entropy instead, a topic pays for the encoding of its own words, as if all others had as
    many.
    """
    columns = (expected.indptr, expected.words, expected.mass, expected.tokens)
    longest = int(np.diff(expected.indptr).max(initial=0))
    unsure = UnsureWords.make(longest, len(shared.probabilities))
    return WordSwitches(
        *_switch_words(columns, shared, switches.indptr, switches.words, encoding, weight, unsure)
    )


def estimate_topics(
    expected: ExpectedCounts,
    shared: SharedModel,
    switches: WordSwitches,
    least: float = LEAST_MASS,
) -> TopicWords:
    """Estimate the word probabilities of some topics that maximise the expected log-likelihood,
    given their switches; every word that is on counts at least `least`."""
    specific = _specific_probabilities(
        expected.indptr,
        expected.words,
        expected.mass,
        shared.probabilities,
        switches.indptr,
        switches.words,
        least,
    )
    return TopicWords(switches.indptr, switches.words, specific)


def estimate_words(
    expected: ExpectedCounts,
    shared: SharedModel,
    switches: WordSwitches,
    least: float = LEAST_MASS,
) -> WordTable:
    """Estimate the word probabilities of all topics, as `estimate_topics` does."""
    return estimate_topics(expected, shared, switches, least).table(shared)


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
