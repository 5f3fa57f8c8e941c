"""Upper limits of the log-likelihood of a document under any fit with a new topic.

For any mixture p of a document and g_j = (1/L) Σ c β_j / p, no mixture of topics has a
log-likelihood above f(p) + L log max_j g_j (Jensen). With p stored for each document, the limit for
a new topic costs one sparse product. Moving p towards the new topic gives a tighter one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from atd_dask.kernels.candidate_topics import all_gradients
from atd_dask.kernels.jit import inner_kernel, kernel
from atd_dask.kernels.mixtures import (
    current_mixture,
    exchange,
    line_maximum,
    log_likelihood,
    mix,
)
from atd_dask.kernels.model import Floats, Ints
from atd_dask.kernels.workspaces import (
    fill_columns,
    fill_row,
    load_document,
    longest_document,
    make_workspace,
)

# How close a stored mixture must come to the best one, in log-likelihood; it need not be optimal.
MIXTURE_GAP = 0.1
LINE_GAP = 0.01  # the same for each line search
MAX_STEPS = 200

# The share of the new topic at which the search for the best one starts.
FIRST_SHARE = 0.1


class FittedRows(NamedTuple):
    """Documents as CSR rows, with figures of their fits to the null model."""

    indptr: Ints  # d + 1
    terms: NDArray[np.int32]  # entries
    counts: NDArray[np.int32]  # entries
    lengths: Ints  # d: in known words
    null: Floats  # d: what a fit with the new topic is compared with


class StoredMixtures(NamedTuple):
    """A mixture p of each document, from which limits follow; updated in place unless `fixed`."""

    weights: Floats  # entries: c / p
    reached: Floats  # d: the log-likelihood f(p)
    largest: Floats  # d: the largest g of the null model's topics
    fixed: bool


@inner_kernel
def _approach(table, work, m, n, length):
    """Move the mixture of the document in `work`, of m topics, close to the best one; return its
    log-likelihood and the largest g of the table's topics."""
    for a in range(m):
        fill_row(work, work.active[a], n)
    mix(work.rows, work.active, work.theta, work.p, m, n)
    for step in range(MAX_STEPS + 1):
        all_gradients(table, work, n, length)
        best = 0
        for j in range(1, len(work.all_g)):
            if work.all_g[j] > work.all_g[best]:
                best = j
        if step == MAX_STEPS or length * (work.all_g[best] - 1.0) <= MIXTURE_GAP:
            break
        index = m
        for a in range(m):
            work.g[a] = work.all_g[work.active[a]]
            if work.active[a] == best:
                index = a
        if index == m:
            work.active[m] = best
            work.theta[m] = 0.0
            work.g[m] = work.all_g[best]
            fill_row(work, np.int64(best), n)
            m += 1
        if not exchange(current_mixture(work), m, n, LINE_GAP):
            break
    largest = 1.0
    for j in range(table.n_topics):
        largest = max(largest, work.all_g[j])
    return log_likelihood(work.counts, work.p, n), largest


@inner_kernel
def keep_mixture(table, terms, work, weights):
    """Store c / p of the entries of a document, 0 for unknown words."""
    i = 0
    for e in range(len(terms)):
        weights[e] = 0.0
        if table.shared[terms[e]] > 0.0:
            weights[e] = work.counts[i] / work.p[i]
            i += 1


@kernel
def start_limits(context, indptr, terms, counts, theta_indptr, topics, theta):
    table = context.table
    n_docs = len(indptr) - 1
    n_topics = table.n_topics
    work = make_workspace(n_topics, longest_document(indptr))
    extra = np.zeros(0)
    weights = np.zeros(len(terms))
    reached = np.zeros(n_docs)
    largest = np.ones(n_docs)
    for d in range(n_docs):
        first = indptr[d]
        last = indptr[d + 1]
        n, length = load_document(table, terms[first:last], counts[first:last], work)
        if n == 0:
            continue
        fill_columns(table, extra, work, n)
        m = theta_indptr[d + 1] - theta_indptr[d]
        for a in range(m):
            work.active[a] = topics[theta_indptr[d] + a]
            work.theta[a] = theta[theta_indptr[d] + a]
        reached[d], largest[d] = _approach(table, work, m, n, length)
        keep_mixture(table, terms[first:last], work, weights[first:last])
    return weights, reached, largest


@inner_kernel
def find_limits(extra, documents, mixtures, outside, out):
    """Fill in, for each document outside the cluster, the log-likelihood that no fit with the new
    topic exceeds."""
    indptr, lengths = documents.indptr, documents.lengths
    for d in range(len(indptr) - 1):
        out[d] = -np.inf
        if lengths[d] == 0 or not outside[d]:
            continue
        total = 0.0
        for e in range(indptr[d], indptr[d + 1]):
            total += mixtures.weights[e] * extra[documents.terms[e]]
        best = max(total / lengths[d], mixtures.largest[d])
        out[d] = mixtures.reached[d] + lengths[d] * math.log(best)


@inner_kernel
def lean(table, extra, terms, counts, weights, work):
    """Load a document, and move its stored mixture, of weights c / p, towards the new topic as far
    as it pays.

    Return its number of words, its length, the log-likelihood there, the largest g of the table's
    topics, and the log-likelihood that no fit exceeds.
    """
    n, length = load_document(table, terms, counts, work)
    fill_columns(table, extra, work, n)
    new = table.n_topics
    rise = -length
    i = 0
    for e in range(len(terms)):
        if table.shared[terms[e]] > 0.0:
            work.p[i] = work.counts[i] / weights[e]
            work.direction[i] = work.columns[i, new] - work.p[i]
            rise += weights[e] * work.columns[i, new]
            i += 1
    if rise > 0.0:
        share = line_maximum(
            work.counts, work.p, work.direction, work.terms, n, FIRST_SHARE, 1.0, LINE_GAP
        )
        for i in range(n):
            work.p[i] += share * work.direction[i]
    all_gradients(table, work, n, length)
    largest = 1.0
    for j in range(new):
        largest = max(largest, work.all_g[j])
    reached = log_likelihood(work.counts, work.p, n)
    return n, length, reached, largest, reached + length * math.log(max(largest, work.all_g[new]))


@inner_kernel
def likelihood_alone(table, extra, terms, counts):
    """Return the log-likelihood of a document under the new topic alone."""
    total = 0.0
    for e in range(len(terms)):
        if table.shared[terms[e]] > 0.0:
            total += counts[e] * math.log(extra[terms[e]])
    return total
