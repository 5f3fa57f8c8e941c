"""The alternative model: the null model plus a new topic, learned from a cluster of documents.

The new topic is numbered after the last one of the null model. It is on in every document of the
cluster, and only its words, its switches û and the documents' proportions are learned (equation
bicM1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from atd_dask.kernels.fitting import FREE, document_cost, fit_document, start_from
from atd_dask.kernels.jit import inner_kernel, kernel
from atd_dask.kernels.model import Block, Floats, Ints, WordTable
from atd_dask.kernels.passes import add_up
from atd_dask.kernels.word_ranking import rank_words
from atd_dask.kernels.word_sweeps import (
    SwitchCost,
    TopicCounts,
    UnsureWords,
    entropy_cost,
    sweep_topic,
)
from atd_dask.kernels.word_switches import LEAST_MASS_OF_NEW, SharedModel, list_words
from atd_dask.kernels.workspaces import (
    fill_column,
    fill_columns,
    load_document,
    longest_document,
    make_shared_workspace,
    make_workspace,
)

# d = documents of the cluster, n = words, j = topics including the new one

TOLERANCE = 1e-4
MAX_ITERATIONS = 50
SWEEPS = 2  # over the word switches, per iteration

# The count of an absent word in the new topic. Anything from 1e-8 to 1e-3 makes no difference.
ABSENT = 1e-5

# Tokens by which a topic is smoothed, per effective word of the shared model.
SMOOTHING = 1.0


@kernel
def measure_perplexity(probabilities):
    """Return the perplexity: the number of equally likely words that are as hard to guess."""
    entropy = 0.0
    for probability in probabilities:
        if probability > 0.0:
            entropy -= probability * math.log(probability)
    return math.exp(entropy)


class NullContext(NamedTuple):
    """What stays constant while clusters grow: the null model, and its words by frequency."""

    table: WordTable
    by_shared: Ints  # n
    rank: Ints  # n
    lda: bool  # LDA instead of the parsimonious model: every word specific, topics free
    smoothing: float  # tokens of the shared model, for documents a topic has not seen

    @classmethod
    def of(cls, table: WordTable, lda: bool = False) -> NullContext:
        shared = SharedModel.from_probabilities(table.shared)
        smoothing = SMOOTHING * measure_perplexity(table.shared)
        return cls(table, shared.by_probability, shared.rank, lda, smoothing)


@inner_kernel
def estimate_topic(context, x, on, extra):
    """Estimate the word probabilities of the new topic, given switches and expected counts."""
    shared = context.table.shared
    all_mass = 0.0
    all_shared = 0.0
    for word in range(len(shared)):
        if on[word]:
            all_mass += max(x[word], ABSENT)
            all_shared += shared[word]
    for word in range(len(shared)):
        extra[word] = shared[word]
        if on[word]:
            extra[word] = max(x[word], ABSENT) * (all_shared / all_mass)


@inner_kernel
def hard_share(work, m, n, length, new):
    """Return the share of tokens whose likeliest topic is the new one; ties go to the others."""
    theta_new = 0.0
    for a in range(m):
        if work.active[a] == new:
            theta_new = work.theta[a]
    tokens = 0.0
    for i in range(n):
        mine = theta_new * work.rows[new, i]
        wins = True
        for a in range(m):
            if work.active[a] != new and work.theta[a] * work.rows[work.active[a], i] >= mine:
                wins = False
        if wins:
            tokens += work.counts[i]
    return tokens / length


@kernel
def new_topic_shares(context, extra, indptr, terms, counts):
    """Fit documents with the new topic on, and return its share in each."""
    table = context.table
    n_docs = len(indptr) - 1
    new = table.n_topics
    work = make_workspace(new + 1, longest_document(indptr))
    slope = np.full(new + 1, FREE if context.lda else 0.0)
    anchors = np.full(new + 1, -1)
    shares = np.zeros(n_docs)
    for d in range(n_docs):
        first = indptr[d]
        last = indptr[d + 1]
        n, length = load_document(table, terms[first:last], counts[first:last], work)
        fill_columns(table, extra, work, n)
        m = start_from(work, new)
        anchors[new] = d
        m, _ = fit_document(table, slope, anchors, d, work, m, n, length)
        shares[d] = hard_share(work, m, n, length, new)
    return shares


@kernel
def train_topic(context, indptr, terms, counts):
    """Learn the new topic from documents, starting from scratch.

    Return its word probabilities and switches; the log-likelihood, the share of the new topic and
    the proportions (documents × topics) of each document; the BIC; and the expected count of each
    word in the topic.
    """
    table = context.table
    n_docs = len(indptr) - 1
    n_words = len(table.shared)
    new = table.n_topics
    x = np.zeros(n_words)
    on = np.zeros(n_words, np.bool_)
    tokens = 0
    for e in range(indptr[n_docs]):
        if table.shared[terms[e]] > 0.0:
            x[terms[e]] += counts[e]
            on[terms[e]] = True
            tokens += counts[e]
    n_occurring = np.int64(0)
    for word in range(n_words):
        n_occurring += on[word]
    words = np.zeros(n_occurring, np.int32)
    places = np.zeros(n_words, np.int64)
    n_occurring = np.int64(0)
    for word in range(n_words):
        if on[word]:
            words[n_occurring] = word
            places[word] = n_occurring
            n_occurring += 1
    work = make_shared_workspace(new + 1, longest_document(indptr), n_occurring, np.int64(0))
    for index in range(n_occurring):
        fill_column(table, work, np.int64(words[index]), index)
    if context.lda:
        for word in range(n_words):
            on[word] = table.shared[word] > 0.0
    n_on = np.int64(0)
    for word in range(n_words):
        n_on += on[word]
    extra = np.zeros(n_words)
    active = np.zeros((n_docs, new + 1), np.int32)
    theta = np.zeros((n_docs, new + 1))
    n_active = np.ones(n_docs, np.int64)
    for d in range(n_docs):
        active[d, 0] = new
        theta[d, 0] = 1.0
    slope = np.full(new + 1, FREE if context.lda else 0.0)
    anchors = np.full(new + 1, -1)
    mine = np.zeros(n_words, np.int32)
    # Two sweeps are too few for a list.
    absent = np.zeros(n_words, np.int32)
    unsure = UnsureWords(words[:0], x[:0], absent)
    likelihoods = np.zeros(n_docs)
    shares = np.zeros(n_docs)
    previous = np.inf
    model = SharedModel(table.shared, context.by_shared, context.rank)
    bic = np.inf
    for _ in range(MAX_ITERATIONS):
        if not context.lda:
            cost = SwitchCost(0.5 * math.log(tokens / (2 * math.pi)), n_words, 1.0)
            n_mine = list_words(on, mine, np.int64(0))
            topic = TopicCounts(words, mine[:n_mine], x, on)
            n_on, _ = sweep_topic(topic, model, cost, n_on, unsure, np.int64(SWEEPS))
        estimate_topic(context, x, on, extra)
        bic = entropy_cost(n_on, n_words) + 0.5 * n_on * math.log(max(tokens, 1) / (2 * math.pi))
        for index in range(n_occurring):
            x[words[index]] = 0.0
            work.columns[index, new] = extra[words[index]]
        for d in range(n_docs):
            first = indptr[d]
            last = indptr[d + 1]
            n, length = load_document(table, terms[first:last], counts[first:last], work)
            if n == 0:
                continue
            for i in range(n):
                work.places[i] = places[work.words[i]]
            m = n_active[d]
            for a in range(m):
                work.active[a] = active[d, a]
                work.theta[a] = theta[d, a]
            anchors[new] = d
            m, likelihoods[d] = fit_document(table, slope, anchors, d, work, m, n, length)
            n_active[d] = m
            for a in range(m):
                active[d, a] = work.active[a]
                theta[d, a] = work.theta[a]
            shares[d] = hard_share(work, m, n, length, new)
            bic += document_cost(work, slope, m, length) - likelihoods[d]
            theta_new = 0.0
            for a in range(m):
                if work.active[a] == new:
                    theta_new = work.theta[a]
            for i in range(n):
                x[work.words[i]] += work.counts[i] * theta_new * work.rows[new, i] / work.p[i]
        if previous - bic <= TOLERANCE * abs(bic):
            break
        previous = bic
    proportions = np.zeros((n_docs, new + 1))
    for d in range(n_docs):
        for a in range(n_active[d]):
            proportions[d, active[d, a]] = theta[d, a]
    return extra, on, likelihoods, shares, proportions, bic, x


@dataclass(frozen=True)
class Alternative:
    """The new topic, as learned from a cluster."""

    probabilities: Floats  # n: including the shared ones
    specific: NDArray[np.bool_]  # n: û
    log_likelihoods: Floats  # d
    shares: Floats  # d: of the new topic, by hard assignment
    proportions: Floats  # d × j
    bic: float
    expected: Floats  # n: expected counts in the topic
    rest: float = 1.0  # the factor on the shared probabilities of words not in `specific`

    def smoothed(self, context: NullContext) -> Alternative:
        """Return the topic for documents it was not learned from: every word of its documents gets
        its own probability, from its expected count and the shared model."""
        tokens = add_up(self.expected) + context.smoothing
        rest = context.smoothing / tokens
        occurring = self.expected > 0.0
        probabilities = context.table.shared * rest
        probabilities[occurring] += self.expected[occurring] / tokens
        return replace(self, probabilities=probabilities, specific=occurring, rest=rest)

    def raised_words(self, shared: Floats) -> Ints:
        """Return the words that the topic makes more likely, most telling first."""
        words = np.flatnonzero(self.specific & (self.probabilities > shared))
        return rank_words(words, self.probabilities, shared)

    def with_half_tokens(self, lengths: Ints) -> Alternative:
        """Return the topic with every specific word counted at least half a token; `lengths` are
        those of its documents."""
        tokens = add_up(self.proportions[:, -1] * lengths)
        own = self.probabilities[self.specific]
        raised = np.maximum(own, LEAST_MASS_OF_NEW / max(tokens, 1.0))
        probabilities = self.probabilities.copy()
        probabilities[self.specific] = raised * (add_up(own) / add_up(raised))
        return replace(self, probabilities=probabilities)


def train_alternative(context: NullContext, cluster: Block) -> Alternative:
    """Learn the alternative model of a cluster."""
    return Alternative(*train_topic(context, *cluster.arrays))
