"""Proposals: documents that settle around one new topic, and what supports them.

A start, documents of an unexpected word or what grows from an unlikely document, settles: its topic
is learned, every document of the batch is asked whether it belongs, and so on. A proposal that is
to be judged is then refined: its own documents are asked only by topics that they did not teach.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from atd_dask.kernels.alternative import Alternative
from atd_dask.kernels.cluster_growth import LEAST_SIZE, SettleRule, grow_few
from atd_dask.kernels.excess import measure_excess
from atd_dask.kernels.fitters import Fitter
from atd_dask.kernels.model import Floats, Ints
from atd_dask.kernels.next_document import Sample, SearchableBatch
from atd_dask.kernels.starts import UnexpectedWords, count_documents
from atd_dask.kernels.support import (
    CAP,
    NormalDocuments,
    count_bearing_out,
    cross_fit_gains,
)

# Rounds of learning and asking: of every start, and of a proposal that is refined.
ROUNDS = 3
MOST_ROUNDS = 10

# Of the smaller of two proposals, the share of documents above which they are the same one.
SAME = 0.5

# Words by which a proposal is parted on trial, and the least share of its documents on each side.
PARTING_WORDS = 6
LEAST_SIDE = 0.15

# Two topics are those of two clusters if they gain about as much as one topic for all, and if
# neither is borne out by more than a few of the other's documents, or half of the documents of both
# bear out that they are two.
ABOUT_AS_GOOD = 0.95
FEW = 0.1
ENOUGH = 0.5


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

    batch: SearchableBatch
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

    def without(self, documents: Ints) -> ProposalSearch:
        """The same search among the other documents."""
        available = self.available.copy()
        available[documents] = False
        return replace(self, available=available)

    def refine(self, proposal: Proposal) -> Proposal:
        """The best supported of a proposal, the documents that belong to it by topics that others
        taught, those that belong to these in turn, and so on; and of its documents those that do
        belong by such topics. The others speak for the topic, but are not sure enough."""
        documents = np.sort(np.array(proposal.documents))
        tried: dict[tuple[int, ...], tuple[Proposal, Floats]] = {}
        for _ in range(MOST_ROUNDS):
            inside = cross_fit_gains(self.fitter, self.batch.take(documents))
            tried[tuple(documents.tolist())] = self._judge(documents, inside), inside
            outside = self.available.copy()
            outside[documents] = False
            least, gains = self._ask(documents, outside)
            gains[documents] = inside
            documents = self._choose(gains, least)
            if len(documents) < LEAST_SIZE or tuple(documents.tolist()) in tried:
                break
        best, inside = max(tried.values(), key=lambda one: one[0].support)
        least = self.rule.least_gain(len(best.documents), self._n_docs)
        n_sure = int(np.count_nonzero(inside > least))
        return replace(best, documents=best.documents[:n_sure]) if n_sure >= LEAST_SIZE else best

    def merge(self, proposal: Proposal, others: Sequence[Proposal]) -> Proposal:
        """A proposal with those others that are parts of the same cluster: together they have more
        support, and one topic explains them better than two."""
        for other in others:
            mine = np.sort(np.array(proposal.documents))
            joining = np.setdiff1d(np.array(other.documents), mine)
            both = np.union1d(mine, joining)
            if len(joining) < LEAST_SIZE or self._gain_apart(mine, joining, self._gain(both)) > 1.0:
                continue
            together = self.settle(both)
            if together is not None and together.support > proposal.support:
                proposal = together
        return proposal

    def part(self, proposal: Proposal) -> Proposal:
        """The better supported part of a proposal that is two clusters, otherwise all of it.

        Parts are looked for among the documents that are sure to belong, by words that some of them
        have.
        """
        documents = np.sort(np.array(proposal.documents))
        gains = cross_fit_gains(self.fitter, self.batch.take(documents))
        sure = documents[gains > CAP]
        if len(sure) < 2 * LEAST_SIZE:
            return proposal
        core, together = self.batch.take(sure), self._gain(sure)
        best_gain, tried = ABOUT_AS_GOOD, set()
        for word in self._find_parting_words(core):
            mine = self._part_by(core, word)
            one, other = sure[mine], sure[~mine]
            if min(len(one), len(other)) < LEAST_SIZE or mine.tobytes() in tried:
                continue
            tried |= {mine.tobytes(), (~mine).tobytes()}
            apart = min(
                self._gain_apart(*sides, together) for sides in ((one, other), (other, one))
            )
            if apart > best_gain and (
                self._are_silent(one, other) or self._do_better_apart(one, other)
            ):
                best_gain, first, second = apart, one, other
        if best_gain == ABOUT_AS_GOOD:
            return proposal
        parts = [self._gather(documents, *side) for side in ((first, second), (second, first))]
        judged = [self.judge(part) for part in parts if len(part) >= LEAST_SIZE]
        return max(judged, key=lambda part: part.support, default=proposal)

    def _gather(self, documents: Ints, mine: Ints, rest: Ints) -> Ints:
        """The documents that are nearer to some than to the rest."""
        near, far = (self._ask_each(teaching, documents) for teaching in (mine, rest))
        return documents[near >= far]

    def _ask_each(self, teaching: Ints, asked: Ints) -> Floats:
        """What documents gain by the topic of others."""
        topic = self.batch.train(teaching).with_half_tokens(self.batch.take(teaching).fit.lengths)
        return self.fitter.gains(topic, self.batch.take(asked))

    def _are_silent(self, one: Ints, other: Ints) -> bool:
        """Whether the topic of either has nothing to say of the other's documents."""
        return all(
            count_bearing_out(self._ask_each(teaching, asked)) <= FEW * len(asked)
            for teaching, asked in ((one, other), (other, one))
        )

    def _do_better_apart(self, one: Ints, other: Ints) -> bool:
        """Whether enough documents of both sides bear out two topics in place of one; none is asked
        by a topic that it taught."""
        together = cross_fit_gains(self.fitter, self.batch.take(np.concatenate((one, other))))
        return all(
            count_bearing_out(cross_fit_gains(self.fitter, self.batch.take(side)) - before)
            > ENOUGH * len(side)
            for side, before in ((one, together[: len(one)]), (other, together[len(one) :]))
        )

    def _find_parting_words(self, cluster: Sample) -> list[int]:
        n_docs = len(cluster.block)
        everyone = np.ones(n_docs, dtype=np.bool_)
        n_with = count_documents(cluster.block, everyone, self.fitter.context.table.n_words)
        normal = self.normal.batch
        usual = normal.count_documents(np.ones(len(normal), dtype=np.bool_))
        shared = self.fitter.context.table.shared
        words = UnexpectedWords.of(n_with, n_docs, usual, len(normal), shared)
        some = (n_with >= LEAST_SIDE * n_docs) & (n_with <= (1 - LEAST_SIDE) * n_docs)
        ranked = [word for word in words.first(len(shared)).tolist() if some[word]]
        return ranked[:PARTING_WORDS]

    def _part_by(self, cluster: Sample, word: int) -> NDArray[np.bool_]:
        """Which documents are on the side of those that have a word, after a few rounds."""
        owners = np.repeat(np.arange(len(cluster.block)), np.diff(cluster.block.indptr))
        mine = np.zeros(len(cluster.block), dtype=np.bool_)
        mine[owners[cluster.block.terms == word]] = True
        for _ in range(ROUNDS):
            if min(np.count_nonzero(mine), np.count_nonzero(~mine)) < LEAST_SIZE:
                break
            gains = []
            for side in (mine, ~mine):
                part = cluster.take(np.flatnonzero(side))
                topic = self.fitter.train(part.block).with_half_tokens(part.fit.lengths)
                gains.append(self.fitter.gains(topic, cluster))
            nearer = gains[0] >= gains[1]
            if np.array_equal(nearer, mine):
                break
            mine = nearer
        return mine

    def _gain(self, documents: Ints) -> float:
        """How much documents gain in BIC with a topic of their own."""
        return self.batch.gain(documents, self.batch.train(documents))

    def _gain_apart(self, first: Ints, second: Ints, together: float) -> float:
        """How much documents gain in BIC if the second ones have a topic of their own, as a
        multiple of what all of them gain `together`, with one topic."""
        if together <= 0.0:
            return 1.0
        topic = self.batch.train(first)
        fitter = self.fitter.with_topic(topic)
        block = self.batch.take(second).block
        rest = Sample(block, fitter.fit(block))
        return (self.batch.gain(first, topic) + rest.gain(fitter.train(block))) / together

    def _ask(self, documents: Ints, asked: NDArray[np.bool_]) -> tuple[float, Floats]:
        """What a document must gain to belong to these, and what those that are asked gain."""
        least = self.rule.least_gain(len(documents), self._n_docs)
        return least, self.batch.gains_above(self._learn(documents), asked, least)

    def _learn(self, documents: Ints) -> Alternative:
        """The topic of documents, for others."""
        return self.batch.train(documents).smoothed(self.fitter.context)

    def _choose(self, gains: Floats, least: float) -> Ints:
        """The documents that belong, ascending."""
        order = np.argsort(-gains, kind="stable")[: self.max_size]
        return np.sort(order[gains[order] > least])

    def judge(self, documents: Ints) -> Proposal:
        """Documents, ascending, with what supports them as a cluster."""
        return self._judge(documents, cross_fit_gains(self.fitter, self.batch.take(documents)))

    def _judge(self, documents: Ints, gains: Floats) -> Proposal:
        topic = self._learn(documents)
        least = self.rule.least_gain(len(documents), self._n_docs)
        support = measure_excess(
            count_bearing_out(gains),
            self._n_docs,
            self.normal.count_bearing_out(topic, least),
            len(self.normal),
        )
        order = np.argsort(-gains, kind="stable")
        return Proposal(tuple(documents[order].tolist()), support)

    @property
    def _n_docs(self) -> int:
        return int(np.count_nonzero(self.available))
