"""The space that is searched for clusters: a batch fitted to the null model, and the donor pool.

The size of a task follows its cost. A small batch goes to every worker as a whole: a task is then a
whole growth, and growths run in parallel. A large batch is cut into shards, and every query is a
task per shard. Either way the same kernels process the same documents in the same order, so the
bytes are the same, as they are without a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from atd_dask.distribution.cluster_search import ClusterSearch, ShardedClusterSearch
from atd_dask.distribution.engine.counters import count
from atd_dask.distribution.engine.runner import RemoteResults, Runner, hold
from atd_dask.distribution.replicates import (
    DrawnReplicates,
    Replicates,
    WholeDonors,
    WholeReplicates,
)
from atd_dask.distribution.shards import ShardedBatch
from atd_dask.distribution.vector_batches import BatchVectors, is_small
from atd_dask.kernels.blocks import Corpus, join_blocks
from atd_dask.kernels.bootstrap import ClusterBootstrap
from atd_dask.kernels.detection_rules import DetectionRules
from atd_dask.kernels.fitters import Fitter
from atd_dask.kernels.fitting import Fit
from atd_dask.kernels.model import Block, Ints
from atd_dask.kernels.next_document import Batch, Sample
from atd_dask.kernels.philox import make_key

# To fit them takes some tenths of a second.
BLOCKS_PER_TASK = 8


class SearchSpace(Protocol):
    """A batch under one null model, ready to be searched."""

    def search(
        self, available: NDArray[np.bool_], known: Ints, key: tuple[object, ...]
    ) -> ClusterSearch:
        """Return the search among the available documents; `known` ones were found earlier."""

    def replicates(
        self, documents: Ints, outside: NDArray[np.bool_], key: tuple[object, ...]
    ) -> Replicates:
        """Return bootstrap clusters that resemble these documents; `outside` marks the documents of
        the batch that may be donors, if the pool includes the batch."""


@dataclass(frozen=True)
class SearchedDocuments:
    """The batch of a detection and the corpus `home` that donors are drawn from. Null models come
    and go, but the documents are read once."""

    test: Corpus
    home: Corpus

    @cached_property
    def test_block(self) -> Block:
        return self.test.rows(0, self.test.n_docs)

    @cached_property
    def home_block(self) -> Block:
        return self.home.rows(0, self.home.n_docs)


@contextmanager
def open_search_space(
    runner: Runner,
    documents: SearchedDocuments,
    vectors: BatchVectors,
    rules: DetectionRules,
    fitter: Fitter,
) -> Iterator[SearchSpace]:
    """Fit a batch, and the corpus that donors are drawn from."""
    test, home = documents.test, documents.home
    beside = Sample(documents.home_block, fit_blocks(runner, home, fitter))
    if is_small(test):
        batch = fitter.batch(documents.test_block, fit_blocks(runner, test, fitter))
        yield WholeSearchSpace(fitter, batch, beside, vectors, rules)
        return
    tests = RemoteResults((), None)
    if not rules.settle:
        pool = rules.make_pool(fitter, beside.block, beside.fit)
        tests = runner.keep(hold, (fitter, pool), [None])
    shards = ShardedBatch(runner, test, fitter)
    try:
        yield ShardedSearchSpace(fitter, shards, beside, vectors, rules, tests)
    finally:
        shards.close()
        runner.drop(tests)


def fit_corpus(runner: Runner, corpus: Corpus, fitter: Fitter) -> tuple[Block, Fit]:
    """Fit all documents of a corpus to the null model; return the documents and the fit."""
    return corpus.rows(0, corpus.n_docs), fit_blocks(runner, corpus, fitter)


def fit_blocks(runner: Runner, corpus: Corpus, fitter: Fitter) -> Fit:
    pieces = pairwise(join_blocks(corpus, BLOCKS_PER_TASK).tolist())
    return Fit.concatenate(list(runner.map(fit_rows, (corpus, fitter), pieces)))


def fit_rows(given: tuple[Corpus, Fitter], rows: tuple[int, int]) -> Fit:
    corpus, fitter = given
    block = corpus.rows(*rows)
    fit = fitter.fit(block)
    count(documents_scored=len(block))
    return fit


@dataclass(frozen=True)
class WholeSearchSpace:
    """A batch that fits on every worker."""

    fitter: Fitter
    batch: Batch
    home: Sample
    vectors: BatchVectors
    rules: DetectionRules

    def search(
        self, available: NDArray[np.bool_], known: Ints, key: tuple[object, ...]
    ) -> ClusterSearch:
        return ClusterSearch(
            self.fitter, self.batch, available, known, self.rules, self.home, self.vectors, key
        )

    def replicates(
        self, documents: Ints, outside: NDArray[np.bool_], key: tuple[object, ...]
    ) -> Replicates:
        fitter, rules, home = self.fitter, self.rules, self.home
        cluster, purpose = self.batch.take(documents), make_key(*key, "significance")
        with_batch = rules.pool == "validation+batch"
        n_pool = len(home.block) + (int(np.count_nonzero(outside)) if with_batch else 0)
        if rules.replicates * len(documents) < n_pool:  # most of the pool is not needed
            donors = WholeDonors(self.batch) if with_batch else None
            return DrawnReplicates.of(fitter, cluster, home, donors, outside, rules, purpose)
        if with_batch:
            home = Sample.concatenate([home, self.batch.take(np.flatnonzero(outside))])
        theta = cluster.fit.proportions.dense(fitter.context.table.n_topics)
        pool = rules.make_pool(fitter, home.block, home.fit)
        lengths = cluster.fit.lengths
        return WholeReplicates(ClusterBootstrap.of(fitter, pool, theta, lengths, purpose))


@dataclass(frozen=True)
class ShardedSearchSpace:
    """A batch in shards."""

    fitter: Fitter
    batch: ShardedBatch
    home: Sample
    vectors: BatchVectors
    rules: DetectionRules
    tests: RemoteResults  # where growth by the rules of the paper tests documents

    def search(
        self, available: NDArray[np.bool_], known: Ints, key: tuple[object, ...]
    ) -> ClusterSearch:
        return ShardedClusterSearch(
            self.fitter,
            self.batch,
            available,
            known,
            self.rules,
            self.home,
            self.vectors,
            key,
            self.tests,
        )

    def replicates(
        self, documents: Ints, outside: NDArray[np.bool_], key: tuple[object, ...]
    ) -> Replicates:
        batch = self.batch if self.rules.pool == "validation+batch" else None
        return DrawnReplicates.of(
            self.fitter,
            self.batch.take(documents),
            self.home,
            batch,
            outside,
            self.rules,
            make_key(*key, "significance"),
        )
