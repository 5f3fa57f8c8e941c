"""Sweeps over the word switches of one topic.

Let x be the expected counts of a topic, and X and R the sums of x and of the shared probabilities
over the words that are on. Switching a word on gains T·KL(x/T ‖ β₀/(R + β₀)) of expected
log-likelihood, with T = X + x and the divergence of two cells; switching it off loses the same,
with X and R taken without the word. A word is on exactly if the gain exceeds its cost.

With e = β₀ X/R, the count that is expected under the shared model, f(e) = x log(x/e) − x + e is at
least the gain of a word that is off. It is at most that of a word that is on, if X and R include
it. So most switches are seen to stay as they are without weighing them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from atd_dask.kernels.jit import inner_kernel, kernel
from atd_dask.kernels.model import Floats, Topics

LEAST_WORDS = 2

# A switch is far from changing if its gain is at most this part of its cost, or its cost at most
# this part of its gain.
FAR = 0.99

# How far the ratio X/R may move, and the costs in nats, before all words of a topic are visited
# again. They change how long sweeps take, never what they find.
WINDOW_RATIO = 1.1
WINDOW_COST = 0.1
LOG_WINDOW_RATIO = math.log(WINDOW_RATIO)


@kernel
def entropy_cost(n_on, places):
    """Return places × H(n_on / places) in nats, the cost of encoding which places are on."""
    if n_on <= 0 or n_on >= places:
        return 0.0
    share = n_on / places
    return -places * (share * math.log(share) + (1.0 - share) * math.log(1.0 - share))


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


class SwitchCost(NamedTuple):
    """What the cost of a topic-specific word depends on."""

    base: float  # of the parameter, ½ log(L̄/2π), and all else that is the same for each word
    places: int  # the switches that are encoded together
    weight: float  # of the entropy


class Chosen(NamedTuple):
    """The words of a topic that are on, and what another switch costs."""

    mass: float  # X
    shared: float  # R
    n_mine: int
    n_on: int  # of those that are encoded together
    less: float  # the cost of encoding with one word less,
    now: float  # as it is,
    more: float  # and with one more
    cost_on: float
    cost_off: float


@inner_kernel
def switch_costs(cost, less, now, more):
    """Return the cost of switching one more word on, and the saving of switching one off, from the
    costs of encoding with one word less, as it is, and with one more."""
    return cost.base + cost.weight * (more - now), cost.base + cost.weight * (now - less)


@inner_kernel
def choose_words(mine, x, shared, cost, n_on):
    """Return what is on: the words `mine` of the topic, and `n_on` of those that are encoded
    together."""
    mass = 0.0
    base = 0.0
    for word in mine:
        mass += x[word]
        base += shared[word]
    less = entropy_cost(n_on - 1, cost.places)
    now = entropy_cost(n_on, cost.places)
    more = entropy_cost(n_on + 1, cost.places)
    costs = switch_costs(cost, less, now, more)
    return Chosen(mass, base, len(mine), n_on, less, now, more, costs[0], costs[1])


@inner_kernel
def change_switch(chosen, on, x, shared, cost):
    """Return what is on after a word was switched that was `on` before, or not."""
    sign = -1 if on else 1
    n_on = chosen.n_on + sign
    if on:
        less, now, more = entropy_cost(n_on - 1, cost.places), chosen.less, chosen.now
    else:
        less, now, more = chosen.now, chosen.more, entropy_cost(n_on + 1, cost.places)
    costs = switch_costs(cost, less, now, more)
    mass = chosen.mass + sign * x
    base = chosen.shared + sign * shared
    return Chosen(mass, base, chosen.n_mine + sign, n_on, less, now, more, costs[0], costs[1])


@inner_kernel
def weigh_switch(on, x, shared, chosen):
    """Return what a word gains by being on, given the others. It is infinite for a word that has to
    stay on. A word that is off and gains no more than its cost may have a larger value, up to the
    cost."""
    if on:
        others = chosen.shared - shared
        rest = chosen.mass - x
        if chosen.n_mine <= LEAST_WORDS or shared <= 0.0 or others <= 0.0 or rest <= 0.0:
            return math.inf
        return switch_gain(x, shared, rest, others)
    if shared <= 0.0 or chosen.mass <= 0.0:
        return -math.inf
    limit = gain_limit(x, shared, chosen.mass, chosen.shared)
    return limit if limit <= chosen.cost_on else switch_gain(x, shared, chosen.mass, chosen.shared)


@inner_kernel
def is_far(on, x, expected, cost_on, cost_off):
    """Return whether a switch is far from changing, by bounds without logarithms. `expected` is e.

    f(e) is at most (x − e)²/e. With log y ≥ 3 (y² − 1)/(y² + 4 y + 1) and
    log y ≤ (y − 1)(y + 5)/(4 y + 2) for y ≥ 1, there is a lower bound too.
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
def is_beyond(on, bound, cost_on, cost_off):
    """Return whether a switch is far from changing, by a bound of its gain from the right side."""
    return FAR * bound >= cost_off if on else bound <= FAR * cost_on


class Window(NamedTuple):
    """Around which ratio of the words that are on, and up to which costs, a list holds."""

    ratio: float
    log_ratio: float
    cost_on: float  # at least
    cost_off: float  # at most


class UnsureWords(NamedTuple):
    """Room for lists of words of a topic."""

    places: Topics  # of words with mass whose switches may change: where in the words of the topic
    logs: Floats  # log(x/β₀) of these
    absent: Topics  # words without mass

    @classmethod
    def make(cls, n_listed: int, n_words: int) -> UnsureWords:
        return cls(np.empty(n_listed, np.int32), np.empty(n_listed), np.zeros(n_words, np.int32))


class TopicCounts(NamedTuple):
    """The words of a topic."""

    words: Topics  # that occur, ascending
    mine: Topics  # that are on before a sweep, ascending
    x: Floats  # expected counts of all words
    on: NDArray[np.bool_]  # of all words: the switches


@inner_kernel
def open_window(chosen):
    ratio = chosen.mass / chosen.shared
    cost_on = chosen.cost_on - WINDOW_COST
    return Window(ratio, math.log(ratio), cost_on, chosen.cost_off + WINDOW_COST)


@inner_kernel
def is_within(chosen, window):
    ratio = chosen.mass / chosen.shared
    return (
        window.ratio <= ratio * WINDOW_RATIO
        and ratio <= window.ratio * WINDOW_RATIO
        and chosen.cost_on >= window.cost_on
        and chosen.cost_off <= window.cost_off
    )


@inner_kernel
def stays_off(x, shared, window):
    """Return whether a word that is off is far from changing everywhere in a window, by the bounds
    of `is_far`, and without branches. f is convex: so the ends of the window are enough."""
    low = shared * window.ratio / WINDOW_RATIO
    high = shared * window.ratio * WINDOW_RATIO
    limit = FAR * window.cost_on
    return ((x - low) ** 2 <= limit * low) & ((x - high) ** 2 <= limit * high)


@inner_kernel
def stays_on(x, shared, window):
    """Return the same of a word that is on. f has its least at x, so the nearer end is enough, and
    nothing is sure within the window."""
    low = shared * window.ratio / WINDOW_RATIO
    high = shared * window.ratio * WINDOW_RATIO
    over, under = x - high, low - x
    squares = x * x + 4.0 * x * high + high * high
    gains = FAR * 3.0 * x * (x * x - high * high)
    above = (over > 0.0) & (gains >= (window.cost_off + over) * squares)
    gains = FAR * 3.0 * under * under
    return above | ((under > 0.0) & (gains >= window.cost_off * (4.0 * low + 2.0 * x)))


@inner_kernel
def is_firm_by_log(on, x, shared, log, window):
    """Return whether a switch is far from changing everywhere in a window, more often than by the
    bounds, by f itself; `log` is log(x/β₀)."""
    low = shared * window.ratio / WINDOW_RATIO
    high = shared * window.ratio * WINDOW_RATIO
    if on and low <= x <= high:
        return False
    middle = x * (log - window.log_ratio) - x
    at_low = middle + x * LOG_WINDOW_RATIO + low
    at_high = middle - x * LOG_WINDOW_RATIO + high
    bound = (at_high if x > high else at_low) if on else max(at_low, at_high)
    return is_beyond(on, bound, window.cost_on, window.cost_off)


@inner_kernel
def list_unsure(topic, shared, window, unsure):
    """List the words with mass whose switches may change within a window; return their number."""
    words, _, x, on = topic
    places, logs = unsure.places, unsure.logs
    # Most words are off and firm, most of the others on and firm. Loops without branches write
    # every place, and keep it if it counts.
    n_left = 0
    for e in range(len(words)):
        word = words[e]
        places[n_left] = e
        n_left += on[word] | (not stays_off(x[word], shared[word], window))
    n_unsure = 0
    for k in range(n_left):
        e = places[k]
        word = words[e]
        places[n_unsure] = e
        n_unsure += (not on[word]) | (not stays_on(x[word], shared[word], window))
    n_listed = 0
    for k in range(n_unsure):
        word = words[places[k]]
        log = math.log(x[word] / shared[word])
        if not is_firm_by_log(on[word], x[word], shared[word], log, window):
            places[n_listed] = places[k]
            logs[n_listed] = log
            n_listed += 1
    return n_listed


@inner_kernel
def sweep_topic(topic, model, cost, n_on, unsure, max_sweeps):
    """Sweep over the switches of one topic, at most until none changes. Return the number of
    switches that are on, `n_on` before, as far as the cost depends on it; and whether any changed.

    A sweep visits the words that occur in order, then the others in descending order of their
    shared probability, as far as their absence can pay.

    Of the words that occur only those are visited that are listed in `unsure`, those whose switches
    may change. What is not listed stays as it is until what is on has left the window of the list;
    the next sweep makes another one. That changes no switch, and without room there is no list.
    """
    words, mine, x, on = topic
    shared, by_shared, rank = model
    absent = unsure.absent
    n_words = len(shared)
    chosen = choose_words(mine, x, shared, cost, n_on)
    depth = 0
    for word in mine:
        if x[word] == 0.0:
            depth = max(depth, rank[word] + 1)
    n_listed = -1
    window = open_window(chosen)
    n_absent = 0
    n_seen = 0
    any_changed = False
    for _ in range(max_sweeps):
        changed = False
        ratio = chosen.mass / chosen.shared
        log_ratio = math.log(ratio)
        if len(unsure.places) > 0 and (n_listed < 0 or not is_within(chosen, window)):
            window = open_window(chosen)
            n_listed = list_unsure(topic, shared, window, unsure)
        listed = n_listed >= 0
        e = 0  # of all words with mass
        k = 0  # of those that are listed
        i = 0  # of those without mass
        while True:
            place = -1  # of a word without mass
            if listed and k < n_listed:
                e = unsure.places[k] + 1
                word = words[e - 1]
                bound = x[word] * (unsure.logs[k] - log_ratio) - x[word] + shared[word] * ratio
                k += 1
                if is_beyond(on[word], bound, chosen.cost_on, chosen.cost_off):
                    continue
            elif not listed and e < len(words):
                word = words[e]
                e += 1
            else:
                e = len(words)
                while i == n_absent and n_seen < n_words:
                    if x[by_shared[n_seen]] == 0.0:
                        absent[n_absent] = n_seen
                        n_absent += 1
                    n_seen += 1
                if i == n_absent:
                    break
                place = absent[i]
                word = by_shared[place]
                i += 1
            expected = shared[word] * ratio
            if is_far(on[word], x[word], expected, chosen.cost_on, chosen.cost_off):
                if place >= depth:
                    break
                continue
            gain = weigh_switch(on[word], x[word], shared[word], chosen)
            flips = gain < chosen.cost_off if on[word] else gain > chosen.cost_on
            if not flips:
                if place >= depth:
                    break
                continue
            changed = True
            chosen = change_switch(chosen, on[word], x[word], shared[word], cost)
            on[word] = not on[word]
            ratio = chosen.mass / chosen.shared
            log_ratio = math.log(ratio)
            depth = max(depth, place + 1)
            if listed and not is_within(chosen, window):
                listed = False
                n_listed = -1
        any_changed = any_changed or changed
        if not changed:
            break
    return chosen.n_on, any_changed
