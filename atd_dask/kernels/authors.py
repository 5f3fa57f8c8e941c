"""A document's fit by the rules of the authors' programs (`compatibility: authors`).

Where the paper says that every switch is tried until none lowers the objective, their programs
visit the topics in order, re-estimate a trial's proportions by EM from equal parts, stop at a
relative change of 1e-4, and weigh a trial by its likelihood one step before the proportions that
are kept. Their recorded runs come out only if all of that is repeated.
"""

from __future__ import annotations

import math

import numpy as np

from atd_dask.kernels.fitting import (
    Fit,
    best_topic,
    fill_rows,
    load_document,
    longest_document,
    make_workspace,
)
from atd_dask.kernels.jit import kernel
from atd_dask.kernels.mixtures import log_likelihood, mix
from atd_dask.kernels.model import Block, Proportions, WordTable

# j = all topics, n = distinct words of a document

CHANGE = 1e-4
MAX_STEPS = 500
MAX_SWEEPS = 10


@kernel
def repeat_em(work, m, n, length):
    """EM steps on the trial's proportions; gives the log-likelihood before the last step."""
    previous = 0.0
    for step in range(MAX_STEPS):
        mix(work.rows, work.trial_active, work.trial_theta, work.trial_p, m, n)
        now = log_likelihood(work.counts, work.trial_p, n)
        for a in range(m):
            total = 0.0
            row = work.rows[work.trial_active[a]]
            for i in range(n):
                total += work.counts[i] * row[i] / work.trial_p[i]
            work.g[a] = total
        for a in range(m):
            work.trial_theta[a] *= work.g[a] / length
        if step > 0:
            change = (previous - now) / previous
            if 0.0 <= change <= CHANGE:
                return now
        previous = now
    return previous


@kernel
def sweep_switches(work, m, n, length, kept):
    """Visits the switches of all topics in order, up to ten times; topic `kept` stays on."""
    n_all = len(work.rows)
    mix(work.rows, work.active, work.theta, work.p, m, n)
    now = log_likelihood(work.counts, work.p, n)
    step_cost = 0.5 * math.log(length / (2 * math.pi))
    for _ in range(MAX_SWEEPS):
        changed = False
        for j in range(n_all):
            place = -1
            for a in range(m):
                if work.active[a] == j:
                    place = a
            if place >= 0:
                if m == 1 or j == kept:
                    continue
                size = 0
                for a in range(m):
                    if a != place:
                        work.trial_active[size] = work.active[a]
                        size += 1
                cost = -step_cost
            else:
                size = m + 1
                work.trial_active[:m] = work.active[:m]
                work.trial_active[m] = j
                cost = step_cost
            cost += work.log_choose[size] - work.log_choose[m]
            work.trial_theta[:size] = 1.0 / size
            gain = repeat_em(work, size, n, length) - now
            if cost - gain < 0.0:
                changed = True
                m = size
                work.active[:m] = work.trial_active[:m]
                work.theta[:m] = work.trial_theta[:m]
                mix(work.rows, work.active, work.theta, work.p, m, n)
                now = log_likelihood(work.counts, work.p, n)
        if not changed:
            break
    return m, now


@kernel
def _fit_block(indptr, terms, counts, table):
    n_docs = len(indptr) - 1
    work = make_workspace(table.n_topics, longest_document(indptr))
    extra = np.zeros(0)
    theta = np.zeros((n_docs, table.n_topics))
    lengths = np.zeros(n_docs, np.int64)
    likelihoods = np.zeros(n_docs)
    cost = 0.0
    for d in range(n_docs):
        first = indptr[d]
        last = indptr[d + 1]
        n, length = load_document(table, terms[first:last], counts[first:last], work)
        if n == 0:
            continue
        lengths[d] = length
        fill_rows(table, extra, work, n)
        work.active[0] = best_topic(table, work, n)
        work.theta[0] = 1.0
        m, likelihoods[d] = sweep_switches(work, 1, n, length, -1)
        cost += work.log_choose[m] + 0.5 * (m - 1) * math.log(length / (2 * math.pi))
        for a in range(m):
            theta[d, work.active[a]] = work.theta[a]
    return theta, lengths, likelihoods, cost


def fit_block(block: Block, table: WordTable) -> Fit:
    """Fits every document of a block as the authors' programs do."""
    theta, lengths, likelihoods, cost = _fit_block(*block.arrays, table)
    documents, topics = np.nonzero(theta)
    indptr = np.searchsorted(documents, np.arange(len(block) + 1))
    proportions = Proportions(indptr, topics.astype(np.int32), theta[documents, topics])
    return Fit(proportions, lengths, likelihoods, cost)
