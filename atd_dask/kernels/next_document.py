"""Finds the next document of a batch to join a cluster.

It is the one with the largest relative gain (l1 − l0)/|l0|. Only few documents are fitted to find
it: documents are visited in the order of the upper limits of their gains, until the next limit is
below the best gain found.
"""

from __future__ import annotations

import copy
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from atd_dask.kernels.alternative import Alternative, NullContext, hard_share, train_alternative
from atd_dask.kernels.fitting import FREE, Fit, document_cost, fit_document, start_from
from atd_dask.kernels.jit import kernel
from atd_dask.kernels.limits import (
    FittedRows,
    StoredMixtures,
    find_limits,
    keep_mixture,
    lean,
    likelihood_alone,
    start_limits,
)
from atd_dask.kernels.model import Block, Floats, Ints
from atd_dask.kernels.workspaces import (
    fill_columns,
    load_document,
    longest_document,
    make_workspace,
)

# Larger than the rounding error of a relative gain.
ROUNDING = 1e-10

# The approximate size of a document besides its words.
BYTES_OF_FIT = 80


@kernel
def _next_document(context, extra, documents, mixtures, outside, least, every):
    """Return the document outside the cluster with the largest relative gain, or -1 if none has a
    gain of at least `least`; the gain; its share of the new topic; and how many documents were
    fitted."""
    table = context.table
    indptr, terms, counts, _, null = documents
    n_docs = len(indptr) - 1
    new = table.n_topics
    work = make_workspace(new + 1, longest_document(indptr))
    slope = np.full(new + 1, FREE if context.lda else 0.0)
    anchors = np.full(new + 1, -1)
    limits = np.zeros(n_docs)
    find_limits(extra, documents, mixtures, outside, limits)
    for other in range(n_docs):
        limits[other] = (limits[other] - null[other]) / abs(null[other]) + ROUNDING
        if null[other] == 0.0:
            limits[other] = -np.inf
    leant = np.zeros(n_docs, np.bool_)
    best = -1
    best_gain = least
    best_share = 0.0
    n_fitted = 0
    while True:
        d = np.int64(0)
        for other in range(1, n_docs):
            if limits[other] > limits[d]:
                d = np.int64(other)
        if limits[d] == -np.inf or (limits[d] < best_gain and not every):
            break
        mine = slice(indptr[d], indptr[d + 1])
        if not leant[d]:
            leant[d] = True
            n, length, value, others, limit = lean(
                table, extra, terms[mine], counts[mine], mixtures.weights[mine], work
            )
            limits[d] = min(limits[d], (limit - null[d]) / abs(null[d]) + ROUNDING)
            if not mixtures.fixed:
                mixtures.reached[d] = value
                mixtures.largest[d] = others
                keep_mixture(table, terms[mine], work, mixtures.weights[mine])
            continue
        limits[d] = -np.inf
        n, length = load_document(table, terms[mine], counts[mine], work)
        fill_columns(table, extra, work, n)
        m = start_from(work, new)
        anchors[new] = d
        m, likelihood = fit_document(table, slope, anchors, d, work, m, n, length)
        n_fitted += 1
        gain = (likelihood - null[d]) / abs(null[d])
        if gain > best_gain or (gain == best_gain and (best < 0 or d < best)):
            best = int(d)
            best_gain = gain
            best_share = hard_share(work, m, n, length, new)
    return best, best_gain, best_share, n_fitted


@kernel
def _gains_above(context, extra, documents, mixtures, available, least):
    """Return how much lower each document's part of the BIC is with the new topic than `null`, or
    -inf if that cannot exceed `least`."""
    table = context.table
    indptr, terms, counts, lengths, null = documents
    n_docs = len(indptr) - 1
    new = table.n_topics
    work = make_workspace(new + 1, longest_document(indptr))
    slope = np.full(new + 1, FREE if context.lda else 0.0)
    anchors = np.full(new + 1, -1)
    gains = np.zeros(n_docs)
    find_limits(extra, documents, mixtures, available, gains)
    for d in range(n_docs):
        if gains[d] == -np.inf:
            continue
        cost_alone = document_cost(work, slope, 1, lengths[d])
        least_cost = np.inf
        for m in range(2, new + 2):
            least_cost = min(least_cost, document_cost(work, slope, m, lengths[d]))
        if null[d] + gains[d] - min(cost_alone, least_cost) <= least:
            gains[d] = -np.inf
            continue
        mine = slice(indptr[d], indptr[d + 1])
        # The topic alone rarely explains a document, and every other topic costs.
        alone = null[d] - cost_alone + likelihood_alone(table, extra, terms[mine], counts[mine])
        if max(alone, null[d] + gains[d] - least_cost) <= least:
            gains[d] = -np.inf
            continue
        n, length, value, others, limit = lean(
            table, extra, terms[mine], counts[mine], mixtures.weights[mine], work
        )
        if not mixtures.fixed:
            mixtures.reached[d] = value
            mixtures.largest[d] = others
            keep_mixture(table, terms[mine], work, mixtures.weights[mine])
        if max(alone, null[d] + limit - least_cost) <= least:
            gains[d] = -np.inf
            continue
        m = start_from(work, new)
        anchors[new] = d
        m, likelihood = fit_document(table, slope, anchors, d, work, m, n, length)
        gains[d] = null[d] + likelihood - document_cost(work, slope, m, length)
    return gains


@dataclass(frozen=True, slots=True)
class Candidate:
    """A document that may join a cluster."""

    document: int
    gain: float  # (l1 − l0)/|l0|
    share: float  # of the new topic, by hard assignment


@dataclass(frozen=True, slots=True)
class Sample:
    """Some documents of a batch, with their fit to the null model."""

    block: Block
    fit: Fit

    @classmethod
    def concatenate(cls, parts: Sequence[Sample]) -> Sample:
        return cls(
            Block.concatenate([part.block for part in parts]),
            Fit.concatenate([part.fit for part in parts]),
        )

    def take(self, places: Ints) -> Sample:
        return Sample(self.block.take(places), self.fit.take(places))

    def score(self, topic: Alternative) -> float:
        """Return the score Σ l1 − l0 of these documents as a cluster."""
        total = 0.0
        for new, null in zip(topic.log_likelihoods, self.fit.log_likelihoods, strict=True):
            total += new - null
        return float(total)

    def gain(self, topic: Alternative) -> float:
        """Return how much the new topic lowers the BIC of these documents."""
        null = 0.0
        for cost, likelihood in zip(self.fit.costs, self.fit.log_likelihoods, strict=True):
            null += cost - likelihood
        return float(null - topic.bic)


class SearchableBatch(ABC):
    """The documents to find clusters in, in memory or in shards."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, documents: Ints) -> Sample:
        """Return some documents, in the given order."""

    @abstractmethod
    def train(self, documents: Ints) -> Alternative:
        """Learn the new topic of a cluster."""

    @abstractmethod
    def least_likely(self, available: NDArray[np.bool_], n_docs: int) -> tuple[Ints, Floats]:
        """Return the available documents that are least likely for their length under the null
        model, and their likelihoods; ties in order."""

    @abstractmethod
    def next_documents(
        self, topics: Sequence[Alternative], outside: Sequence[NDArray[np.bool_]]
    ) -> list[Candidate | None]:
        """Return the document outside its cluster that fits best, for each new topic."""

    @abstractmethod
    def gains_above(self, topic: Alternative, available: NDArray[np.bool_], least: float) -> Floats:
        """Return how much the new topic lowers the BIC of each available document, or -inf if that
        does not exceed `least`."""

    def fork(self) -> SearchableBatch:
        """Return a copy that another thread can use."""
        return self

    def score(self, documents: Ints, topic: Alternative) -> float:
        """Return the score Σ l1 − l0 of a cluster."""
        return self.take(documents).score(topic)

    def gain(self, documents: Ints, topic: Alternative) -> float:
        """Return how much the new topic lowers the BIC of a cluster."""
        return self.take(documents).gain(topic)


@dataclass
class Batch(SearchableBatch):
    """A batch in memory, fitted to the null model.

    The stored mixtures change while clusters grow, unless they are `fixed`, in which case several
    threads can search at once. They save work and never change a result, and are made only when a
    search for documents needs them.
    """

    context: NullContext
    block: Block
    fit: Fit
    fixed: bool = False

    def __post_init__(self) -> None:
        self.n_fitted = 0
        self._trained: tuple[tuple[int, ...], Alternative] | None = None

    @cached_property
    def _mixtures(self) -> StoredMixtures:
        weights, reached, largest = start_limits(
            self.context, *self.block.arrays, *self.fit.proportions.arrays
        )
        return StoredMixtures(weights, reached, largest, self.fixed)

    def __len__(self) -> int:
        return len(self.block)

    def take(self, documents: Ints) -> Sample:
        return Sample(self.block.take(documents), self.fit.take(documents))

    def train(self, documents: Ints) -> Alternative:
        """Learn the topic of a cluster; the last one is cached, as it is often needed again."""
        rows, trained = tuple(documents.tolist()), self._trained
        if trained is None or trained[0] != rows:
            trained = rows, train_alternative(self.context, self.block.take(documents))
            self._trained = trained
        return trained[1]

    def least_likely(self, available: NDArray[np.bool_], n_docs: int) -> tuple[Ints, Floats]:
        lengths = self.fit.lengths
        usable = np.flatnonzero(available & (lengths > 0))
        likelihoods = self.fit.log_likelihoods[usable] / lengths[usable]
        order = np.argsort(likelihoods, kind="stable")[:n_docs]
        return usable[order], likelihoods[order]

    def next_document(
        self,
        topic: Alternative,
        outside: NDArray[np.bool_],
        least: float = -np.inf,
        every: bool = False,
    ) -> Candidate | None:
        """Return the document that fits the new topic best, if its gain is at least `least`;
        `every` fits all documents, for comparison."""
        document, gain, share, n_fitted = _next_document(
            self.context,
            topic.probabilities,
            FittedRows(*self.block.arrays, self.fit.lengths, self.fit.log_likelihoods),
            self._mixtures,
            outside,
            least,
            every,
        )
        self.n_fitted += n_fitted
        return None if document < 0 else Candidate(document, gain, share)

    def next_documents(
        self, topics: Sequence[Alternative], outside: Sequence[NDArray[np.bool_]]
    ) -> list[Candidate | None]:
        return [self.next_document(*pair) for pair in zip(topics, outside, strict=True)]

    def gains_above(self, topic: Alternative, available: NDArray[np.bool_], least: float) -> Floats:
        null = self.fit.costs - self.fit.log_likelihoods
        documents = FittedRows(*self.block.arrays, self.fit.lengths, null)
        gains: Floats = _gains_above(
            self.context, topic.probabilities, documents, self._mixtures, available, least
        )
        return np.where(gains > least, gains, -np.inf)

    def fork(self) -> Batch:
        """Return a copy with its own stored mixtures."""
        weights, reached, largest, fixed = self._mixtures
        other = copy.copy(self)
        other._mixtures = StoredMixtures(weights.copy(), reached.copy(), largest.copy(), fixed)
        return other

    def __sizeof__(self) -> int:
        mixtures = 8 * len(self.block.terms)
        return sys.getsizeof(self.block) + mixtures + len(self) * BYTES_OF_FIT
