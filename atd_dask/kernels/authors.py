"""Fits documents as the authors' programs do (`compatibility: authors`).

The paper tries every switch until none lowers the objective. The programs visit the topics in
order, re-estimate the proportions of a trial by EM from equal parts, stop at a relative change of
1e-4, and judge a trial by its likelihood one step before the proportions that they keep. Their
recorded runs can be reproduced only by doing all of that.
"""

from __future__ import annotations

import math

import numpy as np

from atd_dask.kernels.alternative import hard_share
from atd_dask.kernels.fitting import Fit, best_topic, start_from
from atd_dask.kernels.jit import inner_kernel, kernel
from atd_dask.kernels.mixtures import log_likelihood, mix
from atd_dask.kernels.model import Block, Proportions, WordTable
from atd_dask.kernels.word_sweeps import entropy_cost
from atd_dask.kernels.workspaces import fill_rows, load_document, longest_document, make_workspace

# j = all topics, n = distinct words of a document

CHANGE = 1e-4
MAX_STEPS = 500
MAX_SWEEPS = 10
LEAST_WORDS = 2
ADDED = 1e-5


@inner_kernel
def repeat_em(work, m, n, length):
    """Run EM on the proportions of a trial; return the log-likelihood before the last step."""
    previous = 0.0
    for step in range(MAX_STEPS):
        mix(work.rows, work.trial_active, work.trial_theta, work.trial_p, m, n)
        now = log_likelihood(work.counts, work.trial_p, n)
        for a in range(m):
            total = 0.0
            topic = work.trial_active[a]
            for i in range(n):
                total += work.counts[i] * work.rows[topic, i] / work.trial_p[i]
            work.g[a] = total
        for a in range(m):
            work.trial_theta[a] *= work.g[a] / length
        if step > 0:
            change = (previous - now) / previous
            if 0.0 <= change <= CHANGE:
                return now
        previous = now
    return previous


@inner_kernel
def _gradient(work, topic, n, length):
    total = 0.0
    for i in range(n):
        total += work.counts[i] * work.rows[topic, i] / work.p[i]
    return total / length


@inner_kernel
def sweep_switches(work, m, n, length, kept):
    """Visit the switches of all topics in order, up to ten times; topic `kept` stays on.

    A trial that cannot gain its cost, by Jensen's bound, is skipped: it would be rejected.
    """
    n_all = len(work.rows)
    mix(work.rows, work.active, work.theta, work.p, m, n)
    now = log_likelihood(work.counts, work.p, n)
    step_cost = 0.5 * math.log(length / (2 * math.pi))
    for _ in range(MAX_SWEEPS):
        changed = False
        for j in range(n_all):
            index = -1
            for a in range(m):
                if work.active[a] == j:
                    index = a
            if index >= 0:
                if m == 1 or j == kept:
                    continue
                size = 0
                for a in range(m):
                    if a != index:
                        work.trial_active[size] = work.active[a]
                        size += 1
                cost = -step_cost
            else:
                size = m + 1
                for a in range(m):
                    work.trial_active[a] = work.active[a]
                work.trial_active[m] = j
                cost = step_cost
            cost += work.log_choose[size] - work.log_choose[m]
            if index < 0:
                largest = _gradient(work, j, n, length)
                for a in range(m):
                    largest = max(largest, _gradient(work, work.active[a], n, length))
                if length * (largest - 1.0) < cost:
                    continue
            for a in range(size):
                work.trial_theta[a] = 1.0 / size
            gain = repeat_em(work, size, n, length) - now
            if cost - gain < 0.0:
                changed = True
                m = size
                for a in range(m):
                    work.active[a] = work.trial_active[a]
                    work.theta[a] = work.trial_theta[a]
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
    costs = np.zeros(n_docs)
    for d in range(n_docs):
        first = indptr[d]
        last = indptr[d + 1]
        n, length = load_document(table, terms[first:last], counts[first:last], work)
        if n == 0:
            continue
        lengths[d] = length
        fill_rows(table, extra, work, n)
        m = start_from(work, best_topic(table, work, n))
        m, likelihoods[d] = sweep_switches(work, m, n, length, np.int64(-1))
        costs[d] = work.log_choose[m] + 0.5 * (m - 1) * math.log(length / (2 * math.pi))
        for a in range(m):
            theta[d, work.active[a]] = work.theta[a]
    return theta, lengths, likelihoods, costs


def fit_block(block: Block, table: WordTable) -> Fit:
    """Fit every document of a block as the authors' programs do."""
    theta, lengths, likelihoods, costs = _fit_block(*block.arrays, table)
    documents, topics = np.nonzero(theta)
    indptr = np.searchsorted(documents, np.arange(len(block) + 1))
    proportions = Proportions(indptr, topics.astype(np.int32), theta[documents, topics])
    return Fit(proportions, lengths, likelihoods, costs)


@kernel
def _sweep_words(shared, x, on, tokens):
    """Sweep over the switches u of all words in order, as they do: both sides of a comparison use
    the sum of the counts that are on before the flip."""
    n_words = len(shared)
    n_on = 0
    all_mass = 0.0
    off_shared = 0.0
    for word in range(n_words):
        if on[word]:
            n_on += 1
            all_mass += x[word]
        else:
            off_shared += shared[word]
    base = 0.5 * math.log(tokens / (2 * math.pi))
    weight = math.log(2)
    for _ in range(MAX_SWEEPS):
        changed = False
        for word in range(n_words):
            sign = -1 if on[word] else 1
            if sign < 0 and n_on <= LEAST_WORDS:
                continue
            mu = all_mass / (1.0 - off_shared)
            new_mass = all_mass + sign * x[word]
            new_off = off_shared - sign * shared[word]
            new_mu = new_mass / (1.0 - new_off)
            own = new_mu if sign > 0 else mu
            gain = sign * x[word] * math.log(x[word] / (own * shared[word]))
            gain -= all_mass * math.log(new_mu / mu)
            cost = sign * base
            cost += weight * (entropy_cost(n_on + sign, n_words) - entropy_cost(n_on, n_words))
            if cost - gain < 0.0:
                changed = True
                on[word] = not on[word]
                n_on += sign
                all_mass = new_mass
                off_shared = new_off
        if not changed:
            break
    return n_on


@kernel
def _set_topic(shared, x, on, extra):
    all_mass = 0.0
    off_shared = 0.0
    for word in range(len(shared)):
        if on[word]:
            all_mass += x[word]
        else:
            off_shared += shared[word]
    mu = all_mass / (1.0 - off_shared)
    for word in range(len(shared)):
        extra[word] = x[word] / mu if on[word] else shared[word]


@kernel
def train_topic(context, indptr, terms, counts):
    """Learn the new topic as their programs do; returns the same as `alternative.train_topic`."""
    table = context.table
    n_docs = len(indptr) - 1
    n_words = len(table.shared)
    new = table.n_topics
    work = make_workspace(new + 1, longest_document(indptr))
    x = np.zeros(n_words)
    on = np.zeros(n_words, np.bool_)
    tokens = 0
    for e in range(indptr[n_docs]):
        x[terms[e]] += counts[e]
        on[terms[e]] = True
        tokens += counts[e]
    extra = np.zeros(n_words)
    _set_topic(table.shared, x, on, extra)
    active = np.zeros((n_docs, new + 1), np.int32)
    theta = np.zeros((n_docs, new + 1))
    n_active = np.ones(n_docs, np.int64)
    for d in range(n_docs):
        active[d, 0] = new
        theta[d, 0] = 1.0
    likelihoods = np.zeros(n_docs)
    shares = np.zeros(n_docs)
    previous = 0.0
    objective = 0.0
    for iteration in range(MAX_STEPS):
        for word in range(n_words):
            x[word] = ADDED
        for d in range(n_docs):
            first = indptr[d]
            last = indptr[d + 1]
            n, length = load_document(table, terms[first:last], counts[first:last], work)
            fill_rows(table, extra, work, n)
            m = n_active[d]
            for a in range(m):
                work.trial_active[a] = active[d, a]
                work.trial_theta[a] = theta[d, a]
            repeat_em(work, m, n, length)
            for a in range(m):
                theta[d, a] = work.trial_theta[a]
                if work.trial_active[a] == new and work.g[a] > 0.0:
                    before = work.trial_theta[a] * length / work.g[a]
                    for i in range(n):
                        mine = before * work.rows[new, i] / work.trial_p[i]
                        x[work.words[i]] += work.counts[i] * mine
        n_on = _sweep_words(table.shared, x, on, tokens)
        _set_topic(table.shared, x, on, extra)
        objective = 0.5 * n_on * math.log(tokens / (2 * math.pi))
        objective += math.log(2) * entropy_cost(n_on, n_words)
        for d in range(n_docs):
            first = indptr[d]
            last = indptr[d + 1]
            n, length = load_document(table, terms[first:last], counts[first:last], work)
            fill_rows(table, extra, work, n)
            m = n_active[d]
            for a in range(m):
                work.active[a] = active[d, a]
                work.theta[a] = theta[d, a]
            m, likelihoods[d] = sweep_switches(work, m, n, length, new)
            n_active[d] = m
            for a in range(m):
                active[d, a] = work.active[a]
                theta[d, a] = work.theta[a]
            shares[d] = hard_share(work, m, n, length, new)
            objective -= likelihoods[d] + work.log_choose[m]
            objective -= 0.5 * m * math.log(length / (2 * math.pi))
        if iteration > 0:
            change = (previous - objective) / previous
            if 0.0 <= change <= CHANGE:
                break
        previous = objective
    proportions = np.zeros((n_docs, new + 1))
    for d in range(n_docs):
        for a in range(n_active[d]):
            proportions[d, active[d, a]] = theta[d, a]
    return extra, on, likelihoods, shares, proportions, objective, x


@kernel
def new_topic_shares(context, extra, indptr, terms, counts):
    """Do the same as `alternative.new_topic_shares`, with their fit."""
    table = context.table
    n_docs = len(indptr) - 1
    new = table.n_topics
    work = make_workspace(new + 1, longest_document(indptr))
    shares = np.zeros(n_docs)
    for d in range(n_docs):
        first = indptr[d]
        last = indptr[d + 1]
        n, length = load_document(table, terms[first:last], counts[first:last], work)
        fill_rows(table, extra, work, n)
        m = start_from(work, new)
        m, _ = sweep_switches(work, m, n, length, new)
        shares[d] = hard_share(work, m, n, length, new)
    return shares


@kernel
def next_document(context, extra, indptr, terms, counts, null, outside):
    """Do the same as `next_document`'s kernel, with their fit of every document."""
    table = context.table
    new = table.n_topics
    work = make_workspace(new + 1, longest_document(indptr))
    best = -1
    best_gain = -np.inf
    best_share = 0.0
    for d in range(len(indptr) - 1):
        if not outside[d]:
            continue
        first = indptr[d]
        last = indptr[d + 1]
        n, length = load_document(table, terms[first:last], counts[first:last], work)
        if n == 0:
            continue
        fill_rows(table, extra, work, n)
        m = start_from(work, new)
        m, likelihood = sweep_switches(work, m, n, length, new)
        gain = (likelihood - null[d]) / abs(null[d])
        if gain > best_gain:
            best = d
            best_gain = gain
            best_share = hard_share(work, m, n, length, new)
    return best, best_gain, best_share
