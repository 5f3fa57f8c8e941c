"""Grows candidate clusters: where they start, how they grow, and when growth ends (Algorithm 1).

Growth is a chain of steps, one for each document that joins. A saved chain can be resumed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from atd_dask.kernels.alternative import Alternative
from atd_dask.kernels.bootstrap import MembershipTest, Pool
from atd_dask.kernels.fitters import Fitter
from atd_dask.kernels.next_document import Candidate, SearchableBatch
from atd_dask.kernels.philox import make_key

# The size at which candidates are compared; the one with the largest gain keeps growing.
PREVIEW_SIZE = 8

# The smallest cluster.
LEAST_SIZE = 2


@dataclass(frozen=True, slots=True)
class Step:
    """A step of growth, in which a document joins."""

    document: int
    share: float  # of the new topic in it, before it joined
    gain: float  # of the cluster's BIC over the null model, before it joined
    score: float  # of the cluster, before it joined
    failed: bool = False  # the test of membership


@dataclass(frozen=True, slots=True)
class Growth:
    """A growing cluster."""

    seed: int
    steps: tuple[Step, ...] = ()
    ended: bool = False
    documents: tuple[int, ...] = ()  # of the cluster, once growth has ended
    gain: float = -np.inf  # of that cluster
    support: float = 0.0  # of that cluster
    around: tuple[int, ...] = ()  # documents of its group that are not sure to belong

    @property
    def so_far(self) -> tuple[int, ...]:
        return (self.seed, *(step.document for step in self.steps))


@dataclass(frozen=True, slots=True)
class MembershipRule:
    """The paper's rule to end growth (Algorithm 3): the new topic is not significant in a document.

    Once the cluster has `min_size` documents, a document whose share of the new topic is below
    `test_below` is compared with bootstrap documents. `patience` failures in a row end growth, and
    these documents are removed; a single failure stays.
    """

    replicates: int = 1000
    level: float = 0.99
    test_below: float = 0.2
    min_size: int = 4
    patience: int = 2

    @property
    def most_reaching(self) -> int:
        """The most replicates that may reach the share of a document that passes."""
        return int(np.floor((self.replicates + 1) * (1 - self.level) + 1e-9))


@dataclass(frozen=True, slots=True)
class BicRule:
    """Ends growth when the gain in BIC has not risen for `patience` documents; the cluster with the
    largest gain is kept."""

    patience: int = 2


StopRule = MembershipRule | BicRule


@dataclass(frozen=True, slots=True)
class SettleRule:
    """Decides which documents belong to a cluster once its topic is known.

    A document belongs if its odds reach those of `level`. The odds follow from how much the new
    topic lowers its part of the BIC, and from the cluster's share of the batch as the prior.
    """

    level: float = 0.99

    def least_gain(self, size: int, n_docs: int) -> float:
        """Return the least gain of a member, for a cluster of `size` in a batch of `n_docs`."""
        odds = self.level / (1 - self.level) * max(n_docs - size, 1) / size
        return math.log(odds)


@dataclass(frozen=True)
class Grower:
    """Grows clusters from the `available` documents of a batch."""

    batch: SearchableBatch
    available: NDArray[np.bool_]  # documents
    rule: StopRule
    fitter: Fitter
    pool: Pool
    key: tuple[object, ...]  # what the random numbers are for
    max_size: int | None = None

    def fork(self) -> Grower:
        """Return a copy that can grow in parallel."""
        return replace(self, batch=self.batch.fork())

    def grow(self, growth: Growth, keep: Callable[[Growth], None] = lambda growth: None) -> Growth:
        """Grow until the rule ends it."""
        outside = self.available.copy()
        outside[list(growth.so_far)] = False
        while not growth.ended:
            growth = self._step(growth, outside)
            keep(growth)
        return growth

    def _step(self, growth: Growth, outside: NDArray[np.bool_]) -> Growth:
        documents = np.array(growth.so_far)
        topic = self.batch.train(documents)
        gain = self.batch.gain(documents, topic)
        full = self.max_size is not None and len(documents) >= self.max_size
        candidate = None if full else self.batch.next_documents([topic], [outside])[0]
        if isinstance(self.rule, BicRule):
            gains = [step.gain for step in growth.steps] + [gain]
            best = int(np.argmax(gains))
            if candidate is None or len(gains) - 1 - best >= self.rule.patience:
                return self._end(growth, documents[: best + 1])
        if candidate is None:
            return self._end(growth, documents)
        failed = self._fails(candidate, topic, documents)
        score = self.batch.score(documents, topic)
        step = Step(candidate.document, candidate.share, gain, score, failed)
        outside[candidate.document] = False
        growth = replace(growth, steps=(*growth.steps, step))
        if isinstance(self.rule, MembershipRule):
            patience = self.rule.patience
            if len(growth.steps) >= patience and all(s.failed for s in growth.steps[-patience:]):
                return self._end(growth, np.array(growth.so_far[:-patience]))
        return growth

    def _end(self, growth: Growth, documents: NDArray[np.int64]) -> Growth:
        topic = self.batch.train(documents)
        gain = self.batch.gain(documents, topic)
        return replace(growth, ended=True, documents=tuple(documents.tolist()), gain=gain)

    def _fails(
        self, candidate: Candidate, topic: Alternative, documents: NDArray[np.int64]
    ) -> bool:
        rule = self.rule
        size = len(documents)
        if not isinstance(rule, MembershipRule) or not self._is_tested(candidate.share, size):
            return False
        test = self._make_test(candidate, size, rule)
        return self._run_test(test, topic, documents) > rule.most_reaching

    def _make_test(self, candidate: Candidate, size: int, rule: MembershipRule) -> MembershipTest:
        fit = self.batch.take(np.array([candidate.document])).fit
        return MembershipTest(
            candidate.document,
            fit.proportions.dense(self.fitter.context.table.n_topics)[0],
            int(fit.lengths[0]),
            candidate.share,
            make_key(*self.key, "membership", size),
            range(rule.replicates),
            rule.most_reaching,
        )

    def count_tests(self, growth: Growth) -> dict[str, int]:
        """Count the membership tests so far, and those that failed."""
        tests = [self._is_tested(step.share, size) for size, step in enumerate(growth.steps, 1)]
        return {"tested": sum(tests), "failed": sum(step.failed for step in growth.steps)}

    def _is_tested(self, share: float, size: int) -> bool:
        rule = self.rule
        return (
            isinstance(rule, MembershipRule) and share < rule.test_below and size >= rule.min_size
        )

    def _run_test(
        self, test: MembershipTest, topic: Alternative, documents: NDArray[np.int64]
    ) -> int:
        return test.count(self.fitter, topic, self.pool)

    def preview(self, seeds: Sequence[int]) -> list[float]:
        """Grow from each of these documents, without tests, to the size at which candidates are
        compared, and return the gains."""
        clusters = grow_few(self.batch, self.available, seeds)
        return [self.batch.gain(documents, self.batch.train(documents)) for documents in clusters]


def grow_few(
    batch: SearchableBatch, available: NDArray[np.bool_], seeds: Sequence[int]
) -> list[NDArray[np.int64]]:
    """Grow from each of these documents, without tests, all by one document in every round."""
    clusters = [np.array([seed]) for seed in seeds]
    growing = list(range(len(seeds)))
    for _ in range(PREVIEW_SIZE - 1):
        outside = [available.copy() for _ in growing]
        for index, number in enumerate(growing):
            outside[index][clusters[number]] = False
        topics = [batch.train(clusters[number]) for number in growing]
        found = batch.next_documents(topics, outside)
        grown = []
        for number, candidate in zip(growing, found, strict=True):
            if candidate is not None:
                clusters[number] = np.append(clusters[number], candidate.document)
                grown.append(number)
        growing = grown
        if not growing:
            break
    return clusters


def choose_seeds(batch: SearchableBatch, available: NDArray[np.bool_], n_seeds: int) -> list[int]:
    """Return the least likely documents for their length under the null model; the paper uses the
    first."""
    documents, _ = batch.least_likely(available, n_seeds)
    return [int(document) for document in documents]
