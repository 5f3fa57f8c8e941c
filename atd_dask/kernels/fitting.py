"""Active topics and proportions of documents under given word probabilities (equation testbic).

The switches v of a document are visited until flipping no single one lowers the objective
    ½ (M_d − 1) log(L_d/2π) + log C(M, M_d) + L_d Σ_j slope_j v_jd − log p(d).
With slope 0 this is the objective for documents that the model was not trained on. In training,
slope_j = ½ N_j / L̄_j is the tangent of ½ N_j log L̄_j at the start of the iteration. The logarithm
lies below its tangent, so if documents are switched independently, in any mixture of additions and
removals, the BIC falls by at least as much as their objectives. With slope `FREE`, topics cost a
document nothing, as in LDA, and the objective is the likelihood alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from atd_dask.kernels.candidate_topics import all_gradients, is_hopeless, list_candidates
from atd_dask.kernels.jit import enlarge, inner_kernel, kernel
from atd_dask.kernels.mixtures import (
    GAP,
    LEAST_RISE,
    MAX_EXCHANGES,
    current_mixture,
    divide_words,
    exchange,
    gradients,
    line_maximum,
    log_likelihood,
    maximise,
    mix,
    stays_below,
    trial_mixture,
)
from atd_dask.kernels.model import Block, Floats, Ints, Proportions, WordTable
from atd_dask.kernels.workspaces import (
    fill_columns,
    fill_row,
    load_document,
    longest_document,
    make_keeping_workspace,
    make_workspace,
)

# d = documents, n = distinct words of a document, m = active topics, j = all topics

LEAST_FALL = 1e-9
FREE = -math.inf

# How close to the best share a trial starts, in log-likelihood; it is improved if that decides.
TRIAL_GAP = 0.1


@inner_kernel
def topic_cost(structure, slope, length):
    """Return what one more topic costs a document."""
    return 0.0 if slope == FREE else structure + slope * length


@inner_kernel
def document_cost(work, slope, m, length):
    """Return what the number of its topics costs a document; in training, the tangent is added to
    it."""
    if slope[0] == FREE:
        return 0.0
    return work.log_choose[m] + 0.5 * (m - 1) * math.log(length / (2 * math.pi))


@inner_kernel
def best_topic(table, work, n):
    """Return the topic under which the document is most likely; the first if several are."""
    score = work.all_g
    for j in range(table.n_topics):
        score[j] = 0.0
    for i in range(n):
        word = work.words[i]
        for k in range(table.indptr[word], table.indptr[word + 1]):
            score[table.topics[k]] += work.counts[i] * table.log_ratio[k]
    best = 0
    for j in range(1, table.n_topics):
        if score[j] > score[best]:
            best = j
    return best


@inner_kernel
def start_from(work, topic):
    """Start the document with one topic; return how many that is."""
    work.active[0] = topic
    work.theta[0] = 1.0
    return np.int64(1)


@inner_kernel
def _pays(work, needed, m, n, length):
    """Return whether the best mixture of the trial's topics has a log-likelihood above `needed`.
    The trial's proportions are improved only as far as needed to decide."""
    for _ in range(MAX_EXCHANGES):
        reached = log_likelihood(work.counts, work.trial_p, n)
        if reached > needed:
            return True
        if m == 1:
            return False
        largest = gradients(trial_mixture(work), m, n, length)
        left = length * math.log(largest)
        if reached + left <= needed or left <= GAP:
            return False
        if not exchange(trial_mixture(work), m, n, LEAST_RISE):
            return False
    return False


@inner_kernel
def _take_trial(work, m, n, length):
    """Give the document the topics of the trial, at their best proportions."""
    for a in range(m):
        work.active[a] = work.trial_active[a]
        work.theta[a] = work.trial_theta[a]
    for i in range(n):
        work.p[i] = work.trial_p[i]
    maximise(current_mixture(work), m, n, length)
    return log_likelihood(work.counts, work.p, n)


@inner_kernel
def _add_topic(table, slope, work, m, n, length, now):
    """Switch on the first topic that pays, in the order of the most that each could gain."""
    n_all = len(work.all_g)
    if m == n_all:
        return m, now
    scarce = all_gradients(table, work, n, length)
    structure = work.log_choose[m + 1] - work.log_choose[m] + 0.5 * math.log(length / (2 * math.pi))
    for j in range(n_all):
        work.costs[j] = topic_cost(structure, slope[j], length)
    for index in range(list_candidates(work, m, length, scarce)):
        chosen = work.candidates[index]
        fill_row(work, chosen, n)
        cost = work.costs[chosen]
        rise = length * (work.all_g[chosen] - 1.0)
        tries = rise > 0.0
        if tries and cost > 0.0 and is_hopeless(work, chosen, m, n, length, cost):
            continue
        for i in range(n):
            work.direction[i] = work.rows[chosen, i] - work.p[i]
        share = 0.0
        if tries:
            below, start = False, 0.5
            if cost > 0.0 and m == 1:
                below, start = stays_below(
                    work.counts, work.p, work.direction, work.terms, n, rise, cost
                )
            if below:
                continue
            share = line_maximum(
                work.counts, work.p, work.direction, work.terms, n, max(start, 0.01), 1.0, TRIAL_GAP
            )
        for i in range(n):
            work.trial_p[i] = work.p[i] + share * work.direction[i]
        for a in range(m):
            work.trial_active[a] = work.active[a]
            work.trial_theta[a] = (1.0 - share) * work.theta[a]
        work.trial_active[m] = chosen
        work.trial_theta[m] = share
        if _pays(work, now + cost + LEAST_FALL, m + 1, n, length):
            return m + 1, _take_trial(work, m + 1, n, length)
    return m, now


@inner_kernel
def _remove_topic(slope, anchors, row, work, m, n, length, now):
    """Switch off the first topic that costs more than it explains, in ascending order of
    proportions. A topic whose anchor this document is stays on."""
    if m == 1:
        return m, now
    structure = work.log_choose[m] - work.log_choose[m - 1] + 0.5 * math.log(length / (2 * math.pi))
    for a in range(m):
        work.marked[work.active[a]] = 0
    for _ in range(m):
        out = -1
        for a in range(m):
            if work.marked[work.active[a]] == 0 and (out < 0 or work.theta[a] < work.theta[out]):
                out = a
        topic = work.active[out]
        work.marked[topic] = 1
        if anchors[topic] == row:
            continue
        rest = 1.0 - work.theta[out]
        b = 0
        for a in range(m):
            if a != out:
                work.trial_active[b] = work.active[a]
                work.trial_theta[b] = work.theta[a] / rest if rest > 1e-12 else 1.0 / (m - 1)
                b += 1
        mix(work.rows, work.trial_active, work.trial_theta, work.trial_p, m - 1, n)
        saving = topic_cost(structure, slope[topic], length)
        if _pays(work, now - saving + LEAST_FALL, m - 1, n, length):
            return m - 1, _take_trial(work, m - 1, n, length)
    return m, now


@inner_kernel
def fit_document(table, slope, anchors, row, work, m, n, length):
    """Fit the document in `work`, starting from its m active topics; return how many are active in
    the end, and the log-likelihood."""
    for a in range(m):
        fill_row(work, work.active[a], n)
        work.trial_active[a] = work.active[a]
        work.trial_theta[a] = work.theta[a]
    mix(work.rows, work.active, work.theta, work.trial_p, m, n)
    now = _take_trial(work, m, n, length)
    while True:
        before = m
        m, now = _add_topic(table, slope, work, m, n, length, now)
        if m > before:
            continue
        m, now = _remove_topic(slope, anchors, row, work, m, n, length, now)
        if m == before:
            return m, now


@inner_kernel
def _sort_active(work, m):
    for a in range(1, m):
        topic = work.active[a]
        theta = work.theta[a]
        b = a
        while b > 0 and work.active[b - 1] > topic:
            work.active[b] = work.active[b - 1]
            work.theta[b] = work.theta[b - 1]
            b -= 1
        work.active[b] = topic
        work.theta[b] = theta


@kernel
def _fit_block(rows, table, slope, anchors, start_indptr, start_topics, start_theta, divide):
    indptr, terms, counts = rows
    n_docs = len(indptr) - 1
    longest = longest_document(indptr)
    work = make_keeping_workspace(table.n_topics, longest, len(table.shared), n_docs)
    extra = np.zeros(0)
    out_indptr = np.zeros(n_docs + 1, np.int64)
    out_topics = np.zeros(2 * n_docs + 16, np.int32)
    out_theta = np.zeros(2 * n_docs + 16)
    lengths = np.zeros(n_docs, np.int64)
    likelihoods = np.zeros(n_docs)
    costs = np.zeros(n_docs)
    divided = np.zeros(0)
    ends = np.zeros(n_docs, np.int64)
    if divide:
        divided = np.empty(len(terms) // 2 + 16)
    n_divided = np.int64(0)
    size = np.int64(0)
    for d in range(n_docs):
        first = indptr[d]
        last = indptr[d + 1]
        n, length = load_document(table, terms[first:last], counts[first:last], work)
        out_indptr[d + 1] = size
        ends[d] = n_divided
        if n == 0:
            continue
        lengths[d] = length
        m = start_indptr[d + 1] - start_indptr[d]
        for a in range(m):
            work.active[a] = start_topics[start_indptr[d] + a]
            work.theta[a] = start_theta[start_indptr[d] + a]
        if m == 0:
            m = start_from(work, best_topic(table, work, n))
        fill_columns(table, extra, work, n)
        m, likelihoods[d] = fit_document(table, slope, anchors, d, work, m, n, length)
        costs[d] = document_cost(work, slope, m, length)
        _sort_active(work, m)
        if size + m > len(out_topics):
            out_topics = enlarge(out_topics, size, m)
            out_theta = enlarge(out_theta, size, m)
        for a in range(m):
            out_topics[size + a] = work.active[a]
            out_theta[size + a] = work.theta[a]
        size += m
        out_indptr[d + 1] = size
        if divide and m > 1:
            if n_divided + m * (last - first) > len(divided):
                divided = enlarge(divided, n_divided, m * (last - first))
            n_divided = divide_words(work, divided, n_divided, m, n, last - first)
            ends[d] = n_divided
    proportions = out_indptr, out_topics[:size], out_theta[:size]
    return proportions, lengths, likelihoods, costs, divided, ends


@kernel
def _assign_block(indptr, terms, counts, table):
    n_docs = len(indptr) - 1
    work = make_workspace(table.n_topics, longest_document(indptr))
    out_indptr = np.zeros(n_docs + 1, np.int64)
    topics = np.zeros(n_docs, np.int32)
    size = 0
    for d in range(n_docs):
        first = indptr[d]
        last = indptr[d + 1]
        n, _ = load_document(table, terms[first:last], counts[first:last], work)
        if n > 0:
            topics[size] = best_topic(table, work, n)
            size += 1
        out_indptr[d + 1] = size
    return out_indptr, topics[:size]


@dataclass(frozen=True, slots=True)
class Fit:
    """A block of documents fitted to a model."""

    proportions: Proportions
    lengths: Ints  # documents: tokens that the model knows
    log_likelihoods: Floats  # documents
    costs: Floats  # documents: log C(M, M_d) + ½ (M_d − 1) log(L_d/2π), or 0 if topics are free

    @classmethod
    def concatenate(cls, parts: Sequence[Fit]) -> Fit:
        if len(parts) == 1:
            return parts[0]
        if not parts:
            nothing = np.zeros(0)
            return cls(Proportions.empty(0), np.zeros(0, np.int64), nothing, nothing)
        return cls(
            Proportions.concatenate([part.proportions for part in parts]),
            np.concatenate([part.lengths for part in parts]),
            np.concatenate([part.log_likelihoods for part in parts]),
            np.concatenate([part.costs for part in parts]),
        )

    def join(self, other: Fit) -> Fit:
        return Fit.concatenate([self, other])

    def take(self, documents: Ints) -> Fit:
        """Return some documents, in the given order."""
        return Fit(
            self.proportions.take(documents),
            self.lengths[documents],
            self.log_likelihoods[documents],
            self.costs[documents],
        )


@dataclass(frozen=True, slots=True)
class DividedWords:
    """Words of documents with several topics, divided among them: expected counts of the known
    words for each topic of a document, with room for all its words."""

    counts: Floats
    ends: Ints  # documents: where the counts of the next one begin

    @classmethod
    def concatenate(cls, parts: Sequence[DividedWords]) -> DividedWords:
        """Return the words of all documents of these parts."""
        if len(parts) == 1:
            return parts[0]
        counts = [part.part(0, len(part.ends)) for part in parts]
        sizes = np.cumsum([0, *map(len, counts[:-1])]).tolist()
        ends = [part.ends + size for part, size in zip(parts, sizes, strict=True)]
        return cls(np.concatenate(counts), np.concatenate(ends))

    def part(self, start: int, stop: int) -> Floats:
        """Return the expected counts of some consecutive documents."""
        if start == stop:
            return self.counts[:0]
        first = int(self.ends[start - 1]) if start else 0
        return self.counts[first : int(self.ends[stop - 1])]


def fit_block(
    block: Block,
    table: WordTable,
    start: Proportions | None = None,
    slope: Floats | None = None,
    anchors: Ints | None = None,
) -> Fit:
    """Fit every document of a block.

    A document starts from its topics in `start`, or from the one topic under which it is most
    likely. The document `anchors[j]` of the block keeps topic j.
    """
    start = Proportions.empty(len(block)) if start is None else start
    slope = np.zeros(table.n_topics) if slope is None else slope
    anchors = np.full(table.n_topics, -1) if anchors is None else anchors
    proportions, *figures, _, _ = _fit_block(
        block.arrays, table, slope, anchors, *start.arrays, False
    )
    return Fit(Proportions(*proportions), *figures)


def fit_and_divide(
    block: Block, table: WordTable, start: Proportions, slope: Floats, anchors: Ints
) -> tuple[Fit, DividedWords]:
    """Fit every document of a block as `fit_block` does, and divide its words among its topics."""
    proportions, *figures, counts, ends = _fit_block(
        block.arrays, table, slope, anchors, *start.arrays, True
    )
    return Fit(Proportions(*proportions), *figures), DividedWords(counts, ends)


def assign_block(block: Block, table: WordTable) -> Proportions:
    """Return the one topic of each document under which it is most likely."""
    indptr, topics = _assign_block(*block.arrays, table)
    return Proportions(indptr, topics, np.ones(len(topics)))
