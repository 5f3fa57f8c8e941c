"""Fits documents by the paper's equations, or as the authors' programs do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from atd_dask.kernels import authors
from atd_dask.kernels.alternative import (
    Alternative,
    NullContext,
    new_topic_shares,
    train_alternative,
)
from atd_dask.kernels.document_gains import document_gains
from atd_dask.kernels.fitting import FREE, Fit, fit_block
from atd_dask.kernels.model import Block, Floats, Ints
from atd_dask.kernels.next_document import Batch, Candidate, Sample
from atd_dask.kernels.word_switches import add_topic


@dataclass(frozen=True)
class Fitter:
    """Fits documents to the null model, and to the alternative, by the paper's equations."""

    context: NullContext

    def fit(self, block: Block) -> Fit:
        """Fit documents to the null model."""
        table = self.context.table
        slope = np.full(table.n_topics, FREE) if self.context.lda else None
        return fit_block(block, table, slope=slope)

    def train(self, cluster: Block) -> Alternative:
        """Learn the alternative model of a cluster."""
        return train_alternative(self.context, cluster)

    def shares(self, topic: Alternative, block: Block) -> Floats:
        """Return the share of the new topic in documents outside its cluster."""
        shares: Floats = new_topic_shares(self.context, topic.probabilities, *block.arrays)
        return shares

    def gains(self, topic: Alternative, sample: Sample) -> Floats:
        """Return how much the new topic lowers the BIC of each document."""
        null = sample.fit.costs - sample.fit.log_likelihoods
        gains: Floats = document_gains(
            self.context, topic.probabilities, *sample.block.arrays, null
        )
        return gains

    def with_topic(self, topic: Alternative) -> Self:
        """Return a fitter for the null model plus this topic."""
        table = add_topic(self.context.table, topic.specific, topic.probabilities)
        return replace(self, context=NullContext.of(table, self.context.lda))

    def batch(self, block: Block, fit: Fit, fixed: bool = False) -> Batch:
        """Return a batch to grow clusters in."""
        return Batch(self.context, block, fit, fixed)


@dataclass(frozen=True)
class AuthorsFitter(Fitter):
    """Fits documents as the authors' programs do."""

    def fit(self, block: Block) -> Fit:
        return authors.fit_block(block, self.context.table)

    def train(self, cluster: Block) -> Alternative:
        return Alternative(*authors.train_topic(self.context, *cluster.arrays))

    def shares(self, topic: Alternative, block: Block) -> Floats:
        shares: Floats = authors.new_topic_shares(self.context, topic.probabilities, *block.arrays)
        return shares

    def batch(self, block: Block, fit: Fit, fixed: bool = False) -> Batch:
        return AuthorsBatch(self.context, block, fit, fixed)


class AuthorsBatch(Batch):
    """A batch whose clusters grow as in the authors' programs, which fit every document."""

    def train(self, documents: Ints) -> Alternative:
        return AuthorsFitter(self.context).train(self.block.take(documents))

    def next_document(
        self,
        topic: Alternative,
        outside: NDArray[np.bool_],
        least: float = -np.inf,
        every: bool = True,
    ) -> Candidate | None:
        document, gain, share = authors.next_document(
            self.context,
            topic.probabilities,
            *self.block.arrays,
            self.fit.log_likelihoods,
            outside,
        )
        return None if document < 0 or gain < least else Candidate(int(document), gain, share)
