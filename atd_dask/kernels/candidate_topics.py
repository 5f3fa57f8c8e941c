"""The topics that a document could gain by: bounds that rule out the others.

By Jensen's bound, no mixture of a set of topics is better than the current one, with probabilities
p, by more than L log max g over the set, g_j = (1/L) Σ c b_j/p. Most topics are ruled out by that
for all words, by the same bound for two parts of the words, or from a point that is closer to the
best mixture than p is. None of that decides a result: what is left is tried.

So these bounds are taken in single precision, with a margin: that is half as much to read for each
topic of each word. What is tried is computed in double precision, as if nothing had been ruled out.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from atd_dask.kernels.jit import bound_kernel, inner_kernel

# n = distinct words of a document, m = active topics, j = all topics

# The shares with which a topic is tried to rule it out: this one, then larger or smaller ones.
FIRST_SHARE = 1 / 16
NEXT_SHARE = 4.0
HOPELESS_TRIES = 2

MOST_FACTORS = 256  # in a product that must not become 0

# Words are scarce if the mixture makes them so much less likely than the shared model does.
SCARCE = 0.25

# A margin for rounding when a topic is ruled out, for each token; up to this g it is enough. Coarse
# probabilities are off by 6e-8.
ROUNDING = 1e-6
MOST_GRADIENT = 1e6

# More than a positive sum in single precision loses for each of its n + 4 roundings: in weights,
# probabilities, products and additions. Probabilities do not become 0.
COARSE = 2.0**-23


@inner_kernel
def all_gradients(table, work, n, length):
    """Compute g of every topic, from the shared probabilities and what topics have above them."""
    g = work.all_g
    for j in range(len(g)):
        g[j] = 0.0
    base = 0.0
    total = 0.0
    for i in range(n):
        shared = work.shared[i]
        index = work.places[i]
        weight = work.counts[i] / work.p[i]
        base += weight * shared
        if index < 0:
            continue
        total += weight * work.columns[index, len(g) - 1]
        for j in range(len(g)):
            g[j] += weight * (work.columns[index, j] - shared)
    for j in range(table.n_topics):
        g[j] = (g[j] + base) / length
    if len(g) > table.n_topics:
        g[table.n_topics] = total / length


@inner_kernel
def find_gradient(table, work, topic, n, length):
    """Compute g of one topic, whose row is filled in, to the last bit as `all_gradients` does."""
    row = work.rows[topic]
    base = 0.0
    total = 0.0
    for i in range(n):
        weight = work.counts[i] / work.p[i]
        if topic < table.n_topics:
            base += weight * work.shared[i]
            total += weight * (row[i] - work.shared[i])
        else:
            total += weight * row[i]
    work.all_g[topic] = (total + base) / length


@inner_kernel
def _add_column(sums, weight, column):
    for j in range(len(sums)):
        sums[j] += weight * column[j]


@inner_kernel
def sum_coarsely(work, n):
    """Add up G = L g of every topic in single precision, of scarce words and of the others. Return
    how many tokens are scarce, and what words that all topics share add to each G."""
    for j in range(len(work.other_g)):
        work.scarce_g[j] = 0.0
        work.other_g[j] = 0.0
    scarce = 0.0
    base = 0.0
    for i in range(n):
        index = work.places[i]
        weight = work.counts[i] / work.p[i]
        if index < 0:
            base += weight * work.shared[i]
            continue
        if work.p[i] < SCARCE * work.shared[i]:
            scarce += work.counts[i]
            _add_column(work.scarce_g, np.float32(weight), work.coarse[index])
        else:
            _add_column(work.other_g, np.float32(weight), work.coarse[index])
    return scarce, base


@inner_kernel
def _most_between(scarce, rest, one, other):
    """Return the largest Σ L log(G/L) over two parts of a document, with L tokens each, on the line
    between two pairs of G. If the first pair is smaller in both parts, a lower value may be
    returned: the bound is that of the second one then."""
    rise = one[0] - other[0]
    fall = other[1] - one[1]
    share = 1.0
    if rise * fall > 0.0:
        best = (scarce * rise * other[1] - rest * fall * other[0]) / ((scarce + rest) * rise * fall)
        share = min(max(best, 0.0), 1.0)
    scarce_g = other[0] + share * rise
    rest_g = other[1] - share * fall
    return scarce * math.log(scarce_g / scarce) + rest * math.log(rest_g / rest)


class CoarseSums(NamedTuple):
    """What goes with the sums G of a document that are in its workspace."""

    length: float
    scarce: float  # tokens
    base: float  # of words that all topics share, to be added to each G
    factor: float  # by which a sum may be too small


@inner_kernel
def limit_gain(work, sums, topic, m):
    """Return a bound of what a topic gains in any mixture with the m active ones.

    With G_j of a part of the words, Jensen's bound for scarce words and for the others is
    Σ L log(Σ_j θ_j G_j/L). It is largest for a mixture of two topics, one of which is the new one:
    between active ones it is not above 0.
    """
    scarce, base, factor = sums.scarce, sums.base, sums.factor
    rest = sums.length - scarce
    if scarce == 0.0 or rest == 0.0:
        return math.inf
    mine = factor * work.scarce_g[topic], factor * (work.other_g[topic] + base)
    limit = 0.0
    for a in range(m):
        other = work.active[a]
        theirs = factor * work.scarce_g[other], factor * (work.other_g[other] + base)
        most = _most_between(scarce, rest, mine, theirs)
        if math.isnan(most):
            return math.inf
        limit = max(limit, most)
    return limit


@inner_kernel
def list_candidates(work, m, n, length):
    """List the topics that could gain more than they cost; return how many there are. They are
    in the order of topics."""
    scarce, base = sum_coarsely(work, n)
    factor = 1.0 + (n + 4) * COARSE
    sums = CoarseSums(length, scarce, base, factor)
    least = 0.0
    for a in range(m):
        active = work.active[a]
        least = max(least, work.scarce_g[active] + work.other_g[active] + base)
    # Most topics end here; a loop without branches takes them several at a time.
    for j in range(len(work.possible)):
        most = factor * max(work.scarce_g[j] + work.other_g[j] + base, least)
        work.possible[j] = most - length > work.costs[j]
    for a in range(m):
        work.possible[work.active[a]] = False
    size = 0
    for j in range(len(work.possible)):
        if not work.possible[j]:
            continue
        cost = work.costs[j]
        g = factor * max(work.scarce_g[j] + work.other_g[j] + base, least) / length
        if g <= MOST_GRADIENT:  # not if single precision has overflowed
            # (g - 1) / √g is at least log g, and takes less time.
            if length * (g - 1.0) <= cost * math.sqrt(g) or length * math.log(g) <= cost:
                continue
            if limit_gain(work, sums, j, m) <= cost - ROUNDING * length:
                continue
        if cost > 0.0 and is_hopeless(work, j, m, n, length, cost):
            continue
        work.candidates[size] = j
        size += 1
    return size


@inner_kernel
def sort_candidates(table, work, m, n, length, size):
    """Sort the listed topics, whose rows are filled in, by the most that each could gain, and leave
    out those that cannot pay; return how many are left."""
    least = 0.0
    for a in range(m):
        find_gradient(table, work, work.active[a], n, length)
        least = max(least, work.all_g[work.active[a]])
    n_left = 0
    for index in range(size):
        topic = work.candidates[index]
        find_gradient(table, work, topic, n, length)
        surplus = length * math.log(max(work.all_g[topic], least)) - work.costs[topic]
        if surplus <= 0.0:
            continue
        place = n_left
        while place > 0 and work.surplus[place - 1] < surplus:
            work.candidates[place] = work.candidates[place - 1]
            work.surplus[place] = work.surplus[place - 1]
            place -= 1
        work.candidates[place] = topic
        work.surplus[place] = surplus
        n_left += 1
    return n_left


@bound_kernel
def _multiply(one, other, n):
    """Return the dot product of the first n entries."""
    total = 0.0
    for i in range(n):
        total += one[i] * other[i]
    return total


@bound_kernel
def _gain_along(work, share, n):
    """Return what a share below a half of the topic in `direction` gains, and leave counts / p at
    that point in `terms`.

    Products take less time than logarithms. Their factors are at least an eighth; should one
    overflow, the gain is infinite.
    """
    n_large = 0
    for i in range(n):
        count = work.counts[i]
        mixed = work.p[i] + share * work.direction[i]
        ratio = mixed / work.p[i]
        work.terms[i] = count / mixed
        work.factors[i] = ratio * (ratio if count > 1.0 else 1.0) * (ratio if count > 2.0 else 1.0)
        n_large += count > 3.0
    gain = 0.0
    for first in range(0, n, MOST_FACTORS):
        product = 1.0
        for i in range(first, min(first + MOST_FACTORS, n)):
            product *= work.factors[i]
        gain += math.log(product)
    if n_large > 0:
        for i in range(n):
            if work.counts[i] > 3.0:
                ratio = work.counts[i] / (work.terms[i] * work.p[i])
                gain += (work.counts[i] - 3.0) * math.log(ratio)
    return gain


@inner_kernel
def is_hopeless(work, chosen, m, n, length, cost):
    """Return whether it is certain that no mixture of the m active topics and a chosen one is
    better than the current one by more than `cost`.

    Jensen's bound holds from any point: it is close where the chosen topic has about the share that
    would be its best. The row of the chosen topic may be a coarse one.
    """
    row = work.trial_p
    for i in range(n):
        index = work.places[i]
        row[i] = work.shared[i] if index < 0 else np.float64(work.coarse[index, chosen])
        work.direction[i] = row[i] - work.p[i]
    share = FIRST_SHARE
    for _ in range(HOPELESS_TRIES):
        gain = _gain_along(work, share, n)
        toward = _multiply(work.terms, row, n)
        largest = toward
        for a in range(m):
            largest = max(largest, _multiply(work.terms, work.rows[work.active[a]], n))
        if gain + length * math.log(largest / length) <= cost - ROUNDING * length:
            return True
        # The derivative has the sign of this difference.
        share *= NEXT_SHARE if toward > length else 1.0 / NEXT_SHARE
    return False
