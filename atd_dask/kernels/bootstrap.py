"""Bootstrap documents and clusters, and the tests that compare with them (Algorithms 2 to 4).

A bootstrap document has words drawn with replacement from a mother: a pool document with similar
topic proportions under the null model. Every replicate has its own random stream.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from atd_dask.kernels.alternative import Alternative, NullContext, hard_share, train_topic
from atd_dask.kernels.fitting import (
    best_topic,
    fill_rows,
    fit_document,
    longest_document,
    make_workspace,
)
from atd_dask.kernels.jit import kernel
from atd_dask.kernels.model import Block, Floats, Ints, Proportions
from atd_dask.kernels.philox import below, draw_block

TIE = 1e-12


@kernel
def _expand_tokens(shared, indptr, terms, counts):
    """The words of all documents, each as often as it stands; those that are known."""
    n_docs = len(indptr) - 1
    starts = np.zeros(n_docs + 1, np.int64)
    for d in range(n_docs):
        starts[d + 1] = starts[d]
        for e in range(indptr[d], indptr[d + 1]):
            if shared[terms[e]] > 0.0:
                starts[d + 1] += counts[e]
    tokens = np.zeros(starts[n_docs], np.int32)
    place = 0
    for e in range(indptr[n_docs]):
        if shared[terms[e]] > 0.0:
            for _ in range(counts[e]):
                tokens[place] = terms[e]
                place += 1
    return starts, tokens


@kernel
def _similarities(theta_indptr, topics, theta, query):
    """The cosine between the proportions of every pool document and `query` (topics)."""
    norm = 0.0
    for j in range(len(query)):
        norm += query[j] * query[j]
    out = np.zeros(len(theta_indptr) - 1)
    for d in range(len(out)):
        product = 0.0
        own = 0.0
        for k in range(theta_indptr[d], theta_indptr[d + 1]):
            product += theta[k] * query[topics[k]]
            own += theta[k] * theta[k]
        out[d] = -1.0
        if own > 0.0 and norm > 0.0:
            out[d] = product / math.sqrt(own * norm)
    return out


@dataclass(frozen=True)
class Pool:
    """The documents from which bootstrap documents are drawn.

    A mother is drawn from the `nearest` most similar documents and those as similar as the last of
    them. With nearest = 1 these are the paper's: the most similar one, or one of equals. `once`
    uses no mother twice within a bootstrap cluster as long as there is another.
    """

    proportions: Proportions
    starts: Ints  # documents + 1
    tokens: Ints
    nearest: int = 1
    once: bool = False

    @classmethod
    def of(
        cls,
        context: NullContext,
        block: Block,
        proportions: Proportions,
        nearest: int = 1,
        once: bool = False,
    ) -> Pool:
        starts, tokens = _expand_tokens(context.table.shared, *block.arrays)
        return cls(proportions, starts, tokens, nearest, once)

    def mothers(self, theta: Floats) -> Ints:
        """The documents that may be mothers of one with these proportions."""
        similar = _similarities(*self.proportions.arrays, theta)
        similar[np.diff(self.starts) == 0] = -1.0
        usable = np.flatnonzero(similar >= 0.0)
        if len(usable) == 0:
            return usable
        last = np.sort(similar[usable])[::-1][min(self.nearest, len(usable)) - 1]
        return np.flatnonzero(similar >= last - TIE)


@kernel
def _draw_document(
    starts, tokens, mother, length, key, replicate, part, number, tally, words, draws
):
    """Words of a bootstrap document: distinct ones into `words`, their counts into `tally` (by
    word, otherwise 0). Gives how many there are, and the number of the next block of draws."""
    first = starts[mother]
    size = starts[mother + 1] - first
    n = 0
    at = 4
    for _ in range(length):
        if at == 4:
            draw_block(key, replicate, part, number, draws)
            number += 1
            at = 0
        word = tokens[first + below(draws[at], size)]
        at += 1
        if tally[word] == 0:
            words[n] = word
            n += 1
        tally[word] += 1
    return n, number


@kernel
def _membership(context, extra, starts, tokens, mothers, length, share, key, first, last, limit):
    """How many bootstrap documents of the replicates from `first` to before `last` have a share of
    the new topic of at least `share`; ends once they are more than `limit`."""
    table = context.table
    new = table.n_topics
    longest = 1
    for mother in mothers:
        longest = max(longest, min(starts[mother + 1] - starts[mother], length))
    work = make_workspace(new + 1, longest)
    tally = np.zeros(len(table.shared), np.int32)
    words = np.zeros(longest, np.int32)
    draws = np.zeros(4, np.uint64)
    slope = np.zeros(new + 1)
    anchors = np.full(new + 1, -1)
    anchors[new] = 0
    n_reaching = 0
    for replicate in range(first, last):
        draw_block(key, replicate, 0, 0, draws)
        mother = mothers[below(draws[0], len(mothers))]
        n, _ = _draw_document(
            starts, tokens, mother, length, key, replicate, 0, 1, tally, words, draws
        )
        for i in range(n):
            work.words[i] = words[i]
            work.counts[i] = tally[words[i]]
            tally[words[i]] = 0
        fill_rows(table, extra, work, n)
        work.active[0] = new
        work.theta[0] = 1.0
        m, _ = fit_document(table, slope, anchors, 0, work, 1, n, float(length))
        if hard_share(work, m, n, float(length), new) >= share:
            n_reaching += 1
            if n_reaching > limit:
                break
    return n_reaching


def count_reaching(
    context: NullContext,
    topic: Alternative,
    pool: Pool,
    theta: Floats,
    length: int,
    share: float,
    key: np.uint64,
    replicates: range,
    limit: int,
) -> int:
    """Of the replicates, how many bootstrap documents have as much of the new topic as `share`."""
    mothers = pool.mothers(theta)
    if len(mothers) == 0:
        return len(replicates)
    reaching: int = _membership(
        context,
        topic.probabilities,
        pool.starts,
        pool.tokens,
        mothers,
        length,
        share,
        key,
        replicates.start,
        replicates.stop,
        limit,
    )
    return reaching


@kernel
def _draw_cluster(starts, tokens, mother_indptr, mothers, lengths, once, key, replicate, n_words):
    """A bootstrap cluster as CSR rows."""
    n_docs = len(lengths)
    tally = np.zeros(n_words, np.int32)
    used = np.zeros(len(starts) - 1, np.bool_)
    draws = np.zeros(4, np.uint64)
    words = np.zeros(lengths.sum() + 1, np.int32)
    indptr = np.zeros(n_docs + 1, np.int64)
    counts = np.zeros(lengths.sum() + 1, np.int32)
    size = 0
    for d in range(n_docs):
        first = mother_indptr[d]
        n_mothers = mother_indptr[d + 1] - first
        draw_block(key, replicate, d, 0, draws)
        chosen = below(draws[0], n_mothers)
        if once:
            for step in range(n_mothers):
                other = (chosen + step) % n_mothers
                if not used[mothers[first + other]]:
                    chosen = other
                    break
        mother = mothers[first + chosen]
        used[mother] = True
        n, _ = _draw_document(
            starts,
            tokens,
            mother,
            lengths[d],
            key,
            replicate,
            d,
            1,
            tally,
            words[size:],
            draws,
        )
        mine = np.sort(words[size : size + n])
        for i in range(n):
            words[size + i] = mine[i]
            counts[size + i] = tally[mine[i]]
            tally[mine[i]] = 0
        size += n
        indptr[d + 1] = size
    return indptr, words[:size], counts[:size]


@kernel
def _score_cluster(context, indptr, terms, counts):
    """Σ l1 − l0 of documents that are fitted to both models."""
    table = context.table
    _, _, likelihoods, _, _, _ = train_topic(context, indptr, terms, counts)
    work = make_workspace(table.n_topics, longest_document(indptr))
    extra = np.zeros(0)
    slope = np.zeros(table.n_topics)
    anchors = np.full(table.n_topics, -1)
    total = 0.0
    for d in range(len(indptr) - 1):
        n = indptr[d + 1] - indptr[d]
        length = 0.0
        for i in range(n):
            work.words[i] = terms[indptr[d] + i]
            work.counts[i] = counts[indptr[d] + i]
            length += counts[indptr[d] + i]
        fill_rows(table, extra, work, n)
        work.active[0] = best_topic(table, work, n)
        work.theta[0] = 1.0
        _, likelihood = fit_document(table, slope, anchors, d, work, 1, n, length)
        total += likelihoods[d] - likelihood
    return total


@kernel
def _replicate_scores(
    context, starts, tokens, mother_indptr, mothers, lengths, once, key, first, last
):
    scores = np.zeros(last - first)
    for replicate in range(first, last):
        indptr, terms, counts = _draw_cluster(
            starts,
            tokens,
            mother_indptr,
            mothers,
            lengths,
            once,
            key,
            replicate,
            len(context.table.shared),
        )
        scores[replicate - first] = _score_cluster(context, indptr, terms, counts)
    return scores


@dataclass(frozen=True)
class ClusterBootstrap:
    """Bootstrap clusters in the likeness of one cluster."""

    context: NullContext
    pool: Pool
    lengths: Ints  # documents of the cluster
    mother_indptr: Ints  # documents + 1
    mothers: Ints
    key: np.uint64

    @classmethod
    def of(
        cls, context: NullContext, pool: Pool, theta: Floats, lengths: Ints, key: np.uint64
    ) -> ClusterBootstrap:
        """`theta` (documents × topics) and `lengths` are those of the cluster's documents."""
        lists = [pool.mothers(row) for row in theta]
        indptr = np.concatenate(([0], np.cumsum([len(found) for found in lists])))
        mothers = np.concatenate(lists) if lists else np.zeros(0, np.int64)
        return cls(context, pool, lengths, indptr, mothers, key)

    @property
    def is_possible(self) -> bool:
        """Whether every document of the cluster has a mother."""
        return bool(np.all(np.diff(self.mother_indptr) > 0))

    @property
    def largest_family(self) -> int:
        """How many documents of the cluster have one and the same document as only mother."""
        alone = self.mothers[self.mother_indptr[:-1][np.diff(self.mother_indptr) == 1]]
        return int(np.bincount(alone).max(initial=0))

    def scores(self, replicates: range) -> Floats:
        """Σ l1 − l0 of the bootstrap clusters of these replicates."""
        scores: Floats = _replicate_scores(
            self.context,
            self.pool.starts,
            self.pool.tokens,
            self.mother_indptr,
            self.mothers,
            self.lengths,
            self.pool.once,
            self.key,
            replicates.start,
            replicates.stop,
        )
        return scores
