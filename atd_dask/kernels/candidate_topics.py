"""The topics that a document could gain by: bounds that rule out the others.

By Jensen's bound, no mixture of a set of topics is better than the current one, with probabilities
p, by more than L log max g over the set, g_j = (1/L) Σ c b_j/p. Most topics are ruled out by that
for all words, by the same bound for two parts of the words, or from a point that is closer to the
best mixture than p is. None of that decides a result: what is left is tried.
"""

from __future__ import annotations

import math

from atd_dask.kernels.jit import bound_kernel, inner_kernel

# n = distinct words of a document, m = active topics, j = all topics

# The shares with which a topic is tried to rule it out: this one, then larger or smaller ones.
FIRST_SHARE = 1 / 16
NEXT_SHARE = 4.0
HOPELESS_TRIES = 2

MOST_FACTORS = 256  # in a product that must not become 0

# Words are scarce if the mixture makes them so much less likely than the shared model does.
SCARCE = 0.25

# A margin for rounding when a topic is ruled out, for each token; up to this g it is enough.
ROUNDING = 1e-7
MOST_GRADIENT = 1e6


@inner_kernel
def all_gradients(table, work, n, length):
    """Compute g of every topic, from the shared probabilities and what topics have above them; then
    the part of scarce words in L g. Return how many tokens are scarce."""
    g = work.all_g
    for j in range(len(g)):
        g[j] = 0.0
        work.scarce_g[j] = 0.0
    scarce = 0.0
    base = 0.0
    total = 0.0
    for i in range(n):
        shared = work.shared[i]
        index = work.places[i]
        work.inverse[i] = 1.0 / work.p[i]
        weight = work.counts[i] * work.inverse[i]
        base += weight * shared
        if index < 0:
            continue
        total += weight * work.columns[index, len(g) - 1]
        for j in range(len(g)):
            g[j] += weight * (work.columns[index, j] - shared)
        if work.p[i] < SCARCE * shared:
            scarce += work.counts[i]
            for j in range(len(g)):
                work.scarce_g[j] += weight * work.columns[index, j]
    if base > MOST_GRADIENT * length:
        # A word is next to impossible: differences between topics that also make it so drown in
        # rounding, unless probabilities are added as they are.
        base = 0.0
        for j in range(len(g)):
            g[j] = 0.0
        for i in range(n):
            index = work.places[i]
            weight = work.counts[i] * work.inverse[i]
            if index < 0:
                base += weight * work.shared[i]
                continue
            for j in range(len(g)):
                g[j] += weight * work.columns[index, j]
    for j in range(table.n_topics):
        g[j] = (g[j] + base) / length
    if len(g) > table.n_topics:
        g[table.n_topics] = total / length
    return scarce


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


@inner_kernel
def limit_gain(work, topic, m, length, scarce):
    """Return a bound of what a topic gains in any mixture with the m active ones.

    With G_j the part of a part's words in L g_j, Jensen's bound for scarce words and for the others
    is Σ L log(Σ_j θ_j G_j/L). It is largest for a mixture of two topics, one of which is the new
    one: between active ones it is not above 0.
    """
    rest = length - scarce
    if scarce == 0.0 or rest == 0.0 or work.all_g[topic] > MOST_GRADIENT:
        return math.inf
    mine = work.scarce_g[topic], length * work.all_g[topic] - work.scarce_g[topic]
    limit = 0.0
    for a in range(m):
        other = work.active[a]
        theirs = work.scarce_g[other], length * work.all_g[other] - work.scarce_g[other]
        most = _most_between(scarce, rest, mine, theirs)
        if math.isnan(most):
            return math.inf
        limit = max(limit, most)
    return limit


@inner_kernel
def list_candidates(work, m, length, scarce):
    """List the topics that could gain more than they cost, in the order of the most that each could
    gain; return how many there are."""
    n_all = len(work.all_g)
    least = 0.0
    for a in range(m):
        least = max(least, work.all_g[work.active[a]])
    # g - 1 and (g - 1) / √g are at least log g, and take less time. The first one rules out most
    # topics, in a loop without branches that takes several at a time.
    for j in range(n_all):
        work.possible[j] = length * (max(work.all_g[j], least) - 1.0) > work.costs[j]
    for a in range(m):
        work.possible[work.active[a]] = False
    size = 0
    for j in range(n_all):
        if not work.possible[j]:
            continue
        cost = work.costs[j]
        g = max(work.all_g[j], least)
        if length * (g - 1.0) <= cost * math.sqrt(g):
            continue
        surplus = length * math.log(g) - cost
        if surplus <= 0.0 or limit_gain(work, j, m, length, scarce) <= cost - ROUNDING * length:
            continue
        place = size
        while place > 0 and work.surplus[place - 1] < surplus:
            work.candidates[place] = work.candidates[place - 1]
            work.surplus[place] = work.surplus[place - 1]
            place -= 1
        work.candidates[place] = j
        work.surplus[place] = surplus
        size += 1
    return size


@bound_kernel
def _multiply(one, other, n):
    """Return the dot product of the first n entries."""
    total = 0.0
    for i in range(n):
        total += one[i] * other[i]
    return total


@bound_kernel
def _gain_along(work, row, share, n):
    """Return what a share below a half of a topic with this row gains, and leave c / p at that
    point in `terms`.

    Products take less time than logarithms. Their factors are at least an eighth; should one
    overflow, the gain is infinite.
    """
    for i in range(n):
        ratio = 1.0 + share * (row[i] * work.inverse[i] - 1.0)
        work.ratios[i] = ratio
        work.terms[i] = work.counts[i] * work.inverse[i] / ratio
    gain = 0.0
    for first in range(0, n, MOST_FACTORS):
        product = 1.0
        for i in range(first, min(first + MOST_FACTORS, n)):
            count, ratio = work.counts[i], work.ratios[i]
            product *= ratio * (ratio if count > 1.0 else 1.0) * (ratio if count > 2.0 else 1.0)
        gain += math.log(product)
    n_large = 0
    for i in range(n):
        n_large += work.counts[i] > 3.0
    if n_large > 0:
        for i in range(n):
            if work.counts[i] > 3.0:
                gain += (work.counts[i] - 3.0) * math.log(work.ratios[i])
    return gain


@inner_kernel
def is_hopeless(work, chosen, m, n, length, cost):
    """Return whether it is certain that no mixture of the m active topics and a chosen one, whose
    row is filled in, is better than the current one by more than `cost`. 1 / p must be known.

    Jensen's bound holds from any point: it is close where the chosen topic has about the share that
    would be its best.
    """
    share = FIRST_SHARE
    for _ in range(HOPELESS_TRIES):
        gain = _gain_along(work, work.rows[chosen], share, n)
        toward = _multiply(work.terms, work.rows[chosen], n)
        largest = toward
        for a in range(m):
            largest = max(largest, _multiply(work.terms, work.rows[work.active[a]], n))
        if gain + length * math.log(largest / length) <= cost - ROUNDING * length:
            return True
        # The derivative has the sign of this difference.
        share *= NEXT_SHARE if toward > length else 1.0 / NEXT_SHARE
    return False
