"""Bootstrap documents and clusters, and the tests that compare with them (Algorithms 2 to 4).

The words of a bootstrap document are drawn with replacement from a donor: a document of the pool
with similar topic proportions under the null model. Every replicate has its own random stream.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from atd_dask.kernels.alternative import Alternative
from atd_dask.kernels.fitters import Fitter
from atd_dask.kernels.jit import inner_kernel, kernel
from atd_dask.kernels.model import Block, Floats, Ints, Proportions
from atd_dask.kernels.passes import add_up
from atd_dask.kernels.philox import below, draw_block

TIE = 1e-12
DOCUMENTS_AT_ONCE = 100


@kernel
def _expand_tokens(shared, indptr, terms, counts):
    """Return the known words of all documents, with repetitions."""
    n_docs = len(indptr) - 1
    starts = np.zeros(n_docs + 1, np.int64)
    for d in range(n_docs):
        starts[d + 1] = starts[d]
        for e in range(indptr[d], indptr[d + 1]):
            if shared[terms[e]] > 0.0:
                starts[d + 1] += counts[e]
    tokens = np.zeros(starts[n_docs], np.int32)
    index = 0
    for e in range(indptr[n_docs]):
        if shared[terms[e]] > 0.0:
            for _ in range(counts[e]):
                tokens[index] = terms[e]
                index += 1
    return starts, tokens


@kernel
def similarities(theta_indptr, topics, theta, query):
    """Return the cosine between the proportions of every pool document and `query` (topics)."""
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
    """The documents that bootstrap documents are drawn from.

    A donor is drawn from the `nearest` most similar documents, including ties with the last one.
    nearest = 1 is the paper's rule: the most similar document, or one of several equals. With
    `once`, a bootstrap cluster uses no donor twice as long as there is another.
    """

    proportions: Proportions
    starts: Ints  # documents + 1
    tokens: Ints
    nearest: int = 1
    once: bool = False

    @classmethod
    def of(
        cls,
        fitter: Fitter,
        block: Block,
        proportions: Proportions,
        nearest: int = 1,
        once: bool = False,
    ) -> Pool:
        starts, tokens = _expand_tokens(fitter.context.table.shared, *block.arrays)
        return cls(proportions, starts, tokens, nearest, once)

    def donors(self, theta: Floats) -> Ints:
        """Return the possible donors for a document with these proportions."""
        similar = similarities(*self.proportions.arrays, theta)
        similar[np.diff(self.starts) == 0] = -1.0
        return choose_similar(similar, self.nearest)


def choose_similar(similarities: Floats, nearest: int) -> Ints:
    """Return the indices of the largest similarities, including ties with the last one, without
    negative ones."""
    usable = similarities[similarities >= 0.0]
    if len(usable) == 0:
        return np.zeros(0, np.int64)
    last = usable.max()
    if np.count_nonzero(usable == last) < nearest:  # most documents have one topic: many are equal
        rank = len(usable) - min(nearest, len(usable))
        last = np.partition(usable, rank)[rank]
    return np.flatnonzero(similarities >= max(last - TIE, 0.0))


@inner_kernel
def choose_donor(donors, used, once, draw):
    """Choose a donor by a random number; with `once`, the next unused one as long as there is
    one."""
    chosen = below(draw, len(donors))
    if once:
        for step in range(len(donors)):
            other = (chosen + step) % len(donors)
            if not used[donors[other]]:
                chosen = other
                break
    return donors[chosen]


class PoolTokens(NamedTuple):
    """The tokens of the documents of a pool, one after the other."""

    starts: Ints  # documents + 1
    tokens: Ints
    n_words: int


class DonorRows(NamedTuple):
    """Lists of donors, one for each document or one for all."""

    indptr: Ints  # lists + 1
    donors: Ints


@kernel
def _draw_rows(pool, lists, lengths, once, key, replicates, parts):
    """Draw bootstrap documents as CSR rows; each has the stream of a part of a replicate.

    Row d uses the donors in list d, or in the only list. With `once`, no donor is used twice as
    long as there is another.
    """
    starts, tokens, n_words = pool
    donor_indptr, donors = lists
    n_docs = len(lengths)
    n_tokens = 0
    for d in range(n_docs):
        n_tokens += lengths[d]
    tally = np.zeros(n_words, np.int32)
    used = np.zeros(len(starts) - 1, np.bool_)
    draws = np.zeros(4, np.uint64)
    indptr = np.zeros(n_docs + 1, np.int64)
    words = np.zeros(n_tokens, np.int32)
    counts = np.zeros(n_tokens, np.int32)
    size = 0
    for d in range(n_docs):
        row = min(d, len(donor_indptr) - 2)
        number = np.int64(0)
        draw_block(key, replicates[d], parts[d], number, draws)
        mine = donors[donor_indptr[row] : donor_indptr[row + 1]]
        donor = choose_donor(mine, used, once, draws[0])
        used[donor] = True
        n_drawable = starts[donor + 1] - starts[donor]
        for token in range(lengths[d]):
            if token % 4 == 0:
                number += 1
                draw_block(key, replicates[d], parts[d], number, draws)
            word = tokens[starts[donor] + below(draws[token % 4], n_drawable)]
            if tally[word] == 0:
                words[size] = word
                size += 1
            tally[word] += 1
        for e in range(indptr[d], size):
            counts[e] = tally[words[e]]
            tally[words[e]] = 0
        indptr[d + 1] = size
    return indptr, words, counts


@dataclass(frozen=True, slots=True)
class MembershipTest:
    """The test of a document before it joins a cluster (Algorithm 3)."""

    document: int
    theta: Floats  # topics
    length: int
    share: float  # of the new topic
    key: np.uint64
    replicates: range
    limit: int  # the count may stop once it exceeds this

    def count(self, fitter: Fitter, topic: Alternative, pool: Pool) -> int:
        """Count the replicates whose bootstrap document has at least as much of the new topic."""
        donors = pool.donors(self.theta)
        if len(donors) == 0:
            return len(self.replicates)
        tokens = PoolTokens(pool.starts, pool.tokens, fitter.context.table.n_words)
        only = DonorRows(np.array([0, len(donors)]), donors)
        n_reaching = 0
        for first in range(self.replicates.start, self.replicates.stop, DOCUMENTS_AT_ONCE):
            numbers = np.arange(first, min(first + DOCUMENTS_AT_ONCE, self.replicates.stop))
            lengths = np.full(len(numbers), self.length)
            block = Block(
                *_draw_rows(tokens, only, lengths, False, self.key, numbers, np.zeros_like(numbers))
            )
            shares = fitter.shares(topic, block)
            n_reaching += int(np.count_nonzero(shares >= self.share))
            if n_reaching > self.limit:
                break
        return n_reaching


@dataclass(frozen=True)
class ClusterBootstrap:
    """Bootstrap clusters that resemble one cluster."""

    fitter: Fitter
    pool: Pool
    lengths: Ints  # documents of the cluster
    donor_indptr: Ints  # documents + 1
    donors: Ints
    key: np.uint64

    @classmethod
    def of(
        cls, fitter: Fitter, pool: Pool, theta: Floats, lengths: Ints, key: np.uint64
    ) -> ClusterBootstrap:
        """Set up the bootstrap of documents with `theta` (documents × topics) and `lengths`."""
        lists = [pool.donors(row) for row in theta]
        indptr = np.concatenate(([0], np.cumsum([len(found) for found in lists])))
        donors = np.concatenate(lists) if lists else np.zeros(0, np.int64)
        return cls(fitter, pool, lengths, indptr, donors, key)

    @property
    def is_possible(self) -> bool:
        """Whether every document of the cluster has a donor."""
        return bool(np.all(np.diff(self.donor_indptr) > 0))

    @property
    def only_donor(self) -> int:
        """The largest number of documents of the cluster that share their only donor."""
        alone = self.donors[self.donor_indptr[:-1][np.diff(self.donor_indptr) == 1]]
        return int(np.bincount(alone).max(initial=0))

    def draw(self, replicate: int) -> Block:
        """Draw the bootstrap cluster of a replicate."""
        indptr, words, counts = _draw_rows(
            PoolTokens(self.pool.starts, self.pool.tokens, self.fitter.context.table.n_words),
            DonorRows(self.donor_indptr, self.donors),
            self.lengths,
            self.pool.once,
            self.key,
            np.full(len(self.lengths), replicate),
            np.arange(len(self.lengths)),
        )
        return Block(indptr, words[: indptr[-1]], counts[: indptr[-1]])

    def scores(self, replicates: range) -> Floats:
        """Return the score Σ l1 − l0 of the bootstrap cluster of each replicate."""
        scores = np.zeros(len(replicates))
        for index, replicate in enumerate(replicates):
            cluster = self.draw(replicate)
            topic = self.fitter.train(cluster)
            null = self.fitter.fit(cluster)
            scores[index] = add_up(topic.log_likelihoods - null.log_likelihoods)
        return scores
