"""Proposals: documents that settle around one new topic, and what supports them.

A start, documents of an unexpected word or what grows from an unlikely document, settles: its topic
is learned, every document of the batch is asked whether it belongs, and so on. A proposal that is
to be judged is then refined: its own documents are asked only by topics that they did not teach.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from atd_dask.kernels.clusters import LEAST_SIZE, SettleRule, grow_few
from atd_dask.kernels.fitters import Fitter
from atd_dask.kernels.growth import Searched
from atd_dask.kernels.model import Floats, Ints
from atd_dask.kernels.support import NormalDocuments, add_capped, cross_fit_gains

# Rounds of learning and asking: of every start, and of a proposal that is refined.
ROUNDS = 3
MOST_ROUNDS = 10

# Of the smaller of two proposals, the share of documents above which they are the same one.
SAME = 0.5


@dataclass(frozen=True, slots=True)
class Proposal:
    """Documents that share a new topic, the surest first."""

    documents: tuple[int, ...]
    support: float

    def is_like(self, other: Proposal) -> bool:
        """Whether both have most of the smaller one's documents."""
        common = len(set(self.documents) & set(other.documents))
        return common > SAME * min(len(self.documents), len(other.documents))


@dataclass(frozen=True)
class ProposalSearch:
    """Looks for proposals among the documents of a batch that are `available`."""

    batch: Searched
    available: NDArray[np.bool_]  # documents
    rule: SettleRule
    fitter: Fitter
    normal: NormalDocuments
    max_size: int | None = None

    def fork(self) -> ProposalSearch:
        """The same, for a search beside others."""
        return replace(self, batch=self.batch.fork())

    def settle(self, start: Ints) -> Proposal | None:
        """The documents that belong to the topic of some, after a few rounds. From one document
        some others are grown first."""
        if len(start) == 1:
            (start,) = grow_few(self.batch, self.available, start.tolist())
        documents = np.sort(start)
        for _ in range(ROUNDS):
            if len(documents) < LEAST_SIZE:
                return None
            least, gains = self._ask(documents, self.available)
            belong = self._choose(gains, least)
            if np.array_equal(belong, documents):
                break
            documents = belong
        return self.judge(documents) if len(documents) >= LEAST_SIZE else None

    def refine(self, proposal: Proposal) -> Proposal:
        """The documents that belong by topics that others taught, until nothing changes."""
        documents = np.sort(np.array(proposal.documents))
        seen: set[tuple[int, ...]] = set()
        for _ in range(MOST_ROUNDS):
            seen.add(tuple(documents.tolist()))
            outside = self.available.copy()
            outside[documents] = False
            least, gains = self._ask(documents, outside)
            gains[documents] = cross_fit_gains(self.fitter, self.batch.take(documents))
            belong = self._choose(gains, least)
            if len(belong) < LEAST_SIZE:
                break
            documents = belong
            if tuple(documents.tolist()) in seen:
                break
        return self.judge(documents)

    def _ask(self, documents: Ints, asked: NDArray[np.bool_]) -> tuple[float, Floats]:
        """What a document must gain to belong to these, and what those that are asked gain."""
        topic = self.batch.train(documents)
        others = topic.meet_others(self.batch.take(documents).fit.lengths)
        least = self.rule.least_gain(len(documents), self._n_docs)
        return least, self.batch.gains_above(others, asked, least)

    def _choose(self, gains: Floats, least: float) -> Ints:
        """The documents that belong, ascending."""
        order = np.argsort(-gains, kind="stable")[: self.max_size]
        return np.sort(order[gains[order] > least])

    def judge(self, documents: Ints) -> Proposal:
        """Documents, ascending, with what supports them as a cluster."""
        cluster = self.batch.take(documents)
        gains = cross_fit_gains(self.fitter, cluster)
        topic = self.batch.train(documents).meet_others(cluster.fit.lengths)
        least = self.rule.least_gain(len(documents), self._n_docs)
        usual = self.normal.support(topic, least, self._n_docs)
        order = np.argsort(-gains, kind="stable")
        return Proposal(tuple(documents[order].tolist()), add_capped(gains) - usual)

    @property
    def _n_docs(self) -> int:
        return int(np.count_nonzero(self.available))
