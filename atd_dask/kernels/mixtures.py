"""The proportions of one document over a set of topics.

For word probabilities b (topics × distinct words of the document), counts c and proportions t of
the active topics, the log-likelihood f(t) = Σ c log(Σ t b) is concave. With p = Σ t b and g_j =
(1/L) Σ c b_j / p, no other mixture of a set of topics is better by more than L log max g over the
set (Jensen), whatever p is. This bound decides when to stop, and what to skip.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from atd_dask.kernels.jit import inner_kernel
from atd_dask.kernels.model import Floats, Topics

# j = topics, m = active topics, n = distinct words of the document

GAP = 1e-6
MAX_EXCHANGES = 500
MAX_NEWTON = 60
LIMIT_STEPS = 4
LEAST_RISE = 1e-9
LEAST_FACTOR = 1e-150  # of a product: that of two such factors is above 0


@inner_kernel
def log_likelihood(counts, p, n):
    """Return Σ c log p. Most counts are small, and a product takes less time than a logarithm for
    each of its factors."""
    total = 0.0
    product = 1.0
    for i in range(n):
        factor = p[i] if counts[i] == 1.0 else p[i] * p[i]
        if not (counts[i] == 1.0 or counts[i] == 2.0) or factor < LEAST_FACTOR:
            total += counts[i] * math.log(p[i])
            continue
        product *= factor
        if product < LEAST_FACTOR:
            total += math.log(product)
            product = 1.0
    return total + math.log(product)


@inner_kernel
def slope_along(counts, p, direction, terms, n, x):
    """Return the derivative of Σ c log(p + x·direction)."""
    for i in range(n):
        terms[i] = counts[i] * direction[i] / (p[i] + x * direction[i])
    slope = 0.0
    for i in range(n):
        slope += terms[i]
    return slope


@inner_kernel
def stays_below(counts, p, direction, terms, n, slope, limit):
    """Return whether Σ c log(p + x·direction), with derivative `slope` at 0, provably rises by less
    than `limit` anywhere in [0, 1], and otherwise an x at which it still rises.

    The derivative falls, so the rise over a step is at most the step times the derivative at its
    start. The steps use up the limit until the derivative is negative.
    """
    x = 0.0
    for step in range(LIMIT_STEPS):
        part = limit if step == LIMIT_STEPS - 1 else 0.5 * limit
        following = x + part / slope
        if following >= 1.0:
            return False, x
        limit -= part
        falls = slope_along(counts, p, direction, terms, n, following)
        if falls <= 0.0:
            return True, x
        slope = falls
        x = following
    return False, x


@inner_kernel
def line_maximum(counts, p, direction, terms, n, start, upper, enough):
    """Return the maximiser of Σ c log(p + x·direction) for x in [0, upper]; the slope at 0 is
    positive. Stop when a step promises no more than `enough`.

    It takes Newton steps inside a shrinking bracket, starting from `start`. Close to a probability
    of almost zero, steps from the boundary would only double, so start inside.
    """
    low = 0.0
    high = upper
    x = start
    for _ in range(MAX_NEWTON):
        for i in range(n):
            terms[i] = direction[i] / (p[i] + x * direction[i])
        slope = 0.0
        curvature = 0.0
        for i in range(n):
            slope += counts[i] * terms[i]
            curvature += counts[i] * terms[i] * terms[i]
        if curvature <= 0.0:
            return x
        if slope > 0.0:
            low = x
        else:
            high = x
        step = slope / curvature
        following = x + step
        if following >= upper and slope_along(counts, p, direction, terms, n, upper) >= 0.0:
            return upper
        if not (low < following < high):
            following = 0.5 * (low + high)
        elif step * slope < enough:
            return following
        x = following
    return x


class Mixture(NamedTuple):
    """A document and its mixture of active topics, with scratch memory."""

    counts: Floats  # n
    rows: Floats  # j × n: b
    active: Topics  # m
    theta: Floats  # m: t
    p: Floats  # n
    g: Floats  # m
    direction: Floats  # n
    terms: Floats  # n: of a sum


@inner_kernel
def current_mixture(work):
    """Return the mixture of the document in a workspace."""
    return Mixture(
        work.counts,
        work.rows,
        work.active,
        work.theta,
        work.p,
        work.g,
        work.direction,
        work.terms,
    )


@inner_kernel
def trial_mixture(work):
    """Return the mixture that is on trial in a workspace."""
    return Mixture(
        work.counts,
        work.rows,
        work.trial_active,
        work.trial_theta,
        work.trial_p,
        work.g,
        work.direction,
        work.terms,
    )


@inner_kernel
def gradients(mixture, m, n, length):
    """Compute g of each active topic, and return the largest."""
    terms = mixture.terms
    for i in range(n):
        terms[i] = mixture.counts[i] / mixture.p[i]
    largest = 0.0
    for a in range(m):
        total = 0.0
        for i in range(n):
            total += terms[i] * mixture.rows[mixture.active[a], i]
        mixture.g[a] = total / length
        largest = max(largest, mixture.g[a])
    return largest


@inner_kernel
def mix(rows, active, theta, p, m, n):
    for i in range(n):
        p[i] = theta[0] * rows[active[0], i]
    for a in range(1, m):
        for i in range(n):
            p[i] += theta[a] * rows[active[a], i]


@inner_kernel
def divide_words(work, out, size, m, n, room):
    """Write how often each word is expected to come from each of the m topics, with `room` for the
    words of each; return where the next ones begin."""
    mix(work.rows, work.active, work.theta, work.p, m, n)
    for a in range(m):
        row = work.rows[work.active[a]]
        for i in range(n):
            share = work.theta[a] * row[i] / work.p[i]
            out[size + i] = work.counts[i] * share
        size += room
    return size


@inner_kernel
def exchange(mixture, m, n, enough):
    """Move proportion from the topic with the smallest g to the one with the largest, as far as it
    pays, or until a step promises no more than `enough`."""
    counts, rows, active, theta, p, g, direction, terms = mixture
    best = 0
    for a in range(1, m):
        if g[a] > g[best]:
            best = a
    worst = -1
    for a in range(m):
        if theta[a] > 0.0 and a != best and (worst < 0 or g[a] < g[worst]):
            worst = a
    if worst < 0 or g[best] <= g[worst]:
        return False
    for i in range(n):
        direction[i] = rows[active[best], i] - rows[active[worst], i]
    upper = theta[worst]
    moved = line_maximum(counts, p, direction, terms, n, 0.5 * upper, upper, enough)
    if moved >= upper:
        moved = upper
        theta[worst] = 0.0
    else:
        theta[worst] -= moved
    theta[best] += moved
    mix(rows, active, theta, p, m, n)
    return moved > 0.0


@inner_kernel
def maximise(mixture, m, n, length):
    """Maximise the log-likelihood over the active topics, to within `GAP`."""
    if m == 1:
        return
    for _ in range(MAX_EXCHANGES):
        largest = gradients(mixture, m, n, length)
        if length * (largest - 1.0) <= GAP:
            return
        if not exchange(mixture, m, n, LEAST_RISE):
            return
