"""The words of each topic: the switches u that make a word topic-specific, and probabilities.

Let x be the expected counts of a topic, and X and R the sums of x and of the shared probabilities
over the words that are on. Switching a word on gains T·KL(x/T ‖ β₀/(R + β₀)) of expected
log-likelihood, with T = X + x and the divergence of two cells; switching it off loses the same,
with X and R taken without the word. A word is on exactly if the gain exceeds its cost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from atd_dask.kernels.jit import enlarge, inner_kernel, kernel
from atd_dask.kernels.model import Floats, Ints, Topics, WordTable
from atd_dask.kernels.statistics import ExpectedCounts, list_by_topic

# j = topics, n = words

# The count of a word in a topic in which it never occurs: next to nothing during training, so that
# the BIC is that of the equation, and half a token for new documents.
LEAST_MASS = 1e-15
LEAST_MASS_OF_NEW = 0.5
LEAST_WORDS = 2
MAX_SWEEPS = 20

# A switch is far from changing if its gain is at most this part of its cost, or its cost at most
# this part of its gain.
FAR = 0.99


@kernel
def entropy_cost(n_on, places):
    """Return places × H(n_on / places) in nats, the cost of encoding which places are on."""
    if n_on <= 0 or n_on >= places:
        return 0.0
    share = n_on / places
    return -places * (share * math.log(share) + (1.0 - share) * math.log(1.0 - share))


@inner_kernel
def switch_costs(base, n_on, places, weight):
    """Return the cost of switching one more word on, and the saving of switching one off.

    `base` is the cost of the parameter; the entropy is multiplied by `weight`.
    """
    now = entropy_cost(n_on, places)
    more = entropy_cost(n_on + 1, places)
    less = entropy_cost(n_on - 1, places)
    return base + weight * (more - now), base + weight * (now - less)


@inner_kernel
def switch_gain(x, shared, other_mass, other_shared):
    """Return the gain of making a word topic-specific, given the other ones; see the module."""
    total = other_mass + x
    p = x / total
    q = shared / (other_shared + shared)
    gain = 0.0
    if p > 0.0:
        gain += p * math.log(p / q)
    if p < 1.0:
        gain += (1.0 - p) * math.log((1.0 - p) / (1.0 - q))
    return total * gain


@inner_kernel
def gain_limit(x, shared, other_mass, other_shared):
    """Return an upper bound of `switch_gain` without logarithms: T·χ² ≥ T·KL, with X and R of the
    others T·χ² = (x·R − β₀·X)² / (T·β₀·R)."""
    apart = x * other_shared - shared * other_mass
    return apart * apart / ((other_mass + x) * shared * other_shared)


@inner_kernel
def weigh_switch(on, n_mine, x, shared, all_mass, all_shared, cost_on):
    """Return what a word gains by being on, given the others; the `all_` sums are over the words
    that are on. It is infinite for a word that has to stay on. A word that is off and gains no more
    than its cost may have a larger value, up to the cost."""
    if on:
        others = all_shared - shared
        rest = all_mass - x
        if n_mine <= LEAST_WORDS or shared <= 0.0 or others <= 0.0 or rest <= 0.0:
            return math.inf
        return switch_gain(x, shared, rest, others)
    if shared <= 0.0 or all_mass <= 0.0:
        return -math.inf
    limit = gain_limit(x, shared, all_mass, all_shared)
    return limit if limit <= cost_on else switch_gain(x, shared, all_mass, all_shared)


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


class SwitchCost(NamedTuple):
    """What the cost of a topic-specific word depends on."""

    tokens: np.int64  # of the topic
    places: int  # topics × words: the switches of all topics
    weight: float  # of the entropy


@inner_kernel
def is_far(on, x, expected, cost_on, cost_off):
    """Return whether a switch is far from changing. `expected` is the count e of the word under the
    shared model.

    If the word is off, its gain is at most (x − e)²/e. If it is on, its gain is at least
    x log(x/e) − x + e. With log y ≥ 3 (y² − 1)/(y² + 4 y + 1) and log y ≤ (y − 1)(y + 5)/(4 y + 2)
    for y ≥ 1, there are bounds without logarithms.
    """
    apart = x - expected
    if not on:
        return apart * apart <= FAR * cost_on * expected
    if x == 0.0:
        return FAR * expected >= cost_off
    if apart < 0.0:
        return FAR * 3.0 * apart * apart >= cost_off * (4.0 * expected + 2.0 * x)
    squares = x * x + 4.0 * x * expected + expected * expected
    return FAR * 3.0 * x * (x * x - expected * expected) >= (cost_off + apart) * squares


@inner_kernel
def sweep_topic(words, x, on, model, cost, n_on, margin, max_sweeps):
    """Sweep over the switches `on` of one topic, at most until none changes; return `n_on`, the
    number of switches that are on in all topics.

    `words` are those that occur in the topic, with expected counts in x (0 for all others). A sweep
    visits them in order, then the other words in descending order of their shared probability, as
    far as their absence can pay. `margin` becomes a value that no gain of a word that stays off
    exceeds, and one that no gain of a word that stays on is below: no switch changes as long as
    these are on the same sides of its costs.
    """
    shared, by_shared, rank = model
    n_words = len(shared)
    base = 0.5 * math.log(cost.tokens / (2 * math.pi))
    all_mass = 0.0
    all_shared = 0.0
    depth = 0
    n_mine = np.int64(0)
    for word in range(n_words):
        if on[word]:
            n_mine += 1
            all_mass += x[word]
            all_shared += shared[word]
            if x[word] == 0.0:
                depth = max(depth, rank[word] + 1)
    cost_on, cost_off = switch_costs(base, n_on, cost.places, cost.weight)
    for _ in range(max_sweeps):
        changed = False
        ratio = all_mass / all_shared
        margin[0] = -math.inf
        margin[1] = math.inf
        for e in range(len(words) + n_words):
            if e < len(words):
                word = words[e]
            else:
                word = by_shared[e - len(words)]
                if x[word] > 0.0:
                    continue
            if is_far(on[word], x[word], shared[word] * ratio, cost_on, cost_off):
                if e - len(words) >= depth:
                    break
                continue
            gain = weigh_switch(
                on[word], n_mine, x[word], shared[word], all_mass, all_shared, cost_on
            )
            if on[word]:
                flips = gain < cost_off
                margin[1] = min(margin[1], gain)
            else:
                flips = gain > cost_on
                margin[0] = max(margin[0], gain)
            if not flips:
                if e - len(words) >= depth:
                    break
                continue
            changed = True
            sign = -1 if on[word] else 1
            on[word] = not on[word]
            all_mass += sign * x[word]
            all_shared += sign * shared[word]
            ratio = all_mass / all_shared
            n_mine += sign
            n_on += sign
            depth = max(depth, e - len(words) + 1)
            cost_on, cost_off = switch_costs(base, n_on, cost.places, cost.weight)
        # In the last sweep the costs do not change, so these are bounds for the words that are far.
        margin[0] = max(margin[0], FAR * cost_on)
        margin[1] = min(margin[1], cost_off / FAR)
        if not changed:
            break
    if changed:
        margin[0] = math.inf
    return n_on


@kernel
def _switch_words(expected, model, on_indptr, on_words, weight, margins):
    """Sweep over the switches of every topic, but of those that `margins` from the last time show
    to be settled; return the words that are on."""
    indptr, words, mass, tokens = expected
    n_topics = len(tokens)
    n_words = len(model.probabilities)
    n_on = len(on_words)
    new_indptr = np.zeros(n_topics + 1, np.int64)
    new_words = np.zeros(n_on + n_words, np.int32)
    size = np.int64(0)
    on = np.zeros(n_words, np.bool_)
    x = np.zeros(n_words)
    for j in range(n_topics):
        if size + n_words > len(new_words):
            new_words = enlarge(new_words, size, n_words)
        base = 0.5 * math.log(tokens[j] / (2 * math.pi))
        cost_on, cost_off = switch_costs(base, n_on, n_topics * n_words, weight)
        if margins[j, 0] <= cost_on and margins[j, 1] >= cost_off:
            for e in range(on_indptr[j], on_indptr[j + 1]):
                new_words[size] = on_words[e]
                size += 1
            new_indptr[j + 1] = size
            continue
        mine = words[indptr[j] : indptr[j + 1]]
        for e in range(indptr[j], indptr[j + 1]):
            x[words[e]] = mass[e]
        for e in range(on_indptr[j], on_indptr[j + 1]):
            on[on_words[e]] = True
        cost = SwitchCost(tokens[j], n_topics * n_words, weight)
        n_on = sweep_topic(mine, x, on, model, cost, n_on, margins[j], np.int64(MAX_SWEEPS))
        for word in range(n_words):
            if on[word]:
                new_words[size] = word
                size += 1
                on[word] = False
        new_indptr[j + 1] = size
        for word in mine:
            x[word] = 0.0
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
    for _ in range(MAX_SWEEPS):
        indptr, words = _switch_words(
            columns, shared, switches.indptr, switches.words, entropy_weight, margins
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
