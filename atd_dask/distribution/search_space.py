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
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from atd_dask.distribution.cluster_search import ClusterSearch, ShardedClusterSearch
from atd_dask.distribution.engine.counters import count
from atd_dask.distribution.engine.runner import RemoteResults, Runner, hold
from atd_dask.distribution.replicates import Replicates, ShardedReplicates, WholeReplicates
from atd_dask.distribution.shards import ShardedBatch
from atd_dask.distribution.vector_batches import BatchVectors, is_small
from atd_dask.kernels.blocks import Corpus
from atd_dask.kernels.bootstrap import ClusterBootstrap, Pool
from atd_dask.kernels.detection_rules import DetectionRules
from atd_dask.kernels.fitters import Fitter
from atd_dask.kernels.fitting import Fit
from atd_dask.kernels.model import Block, Ints
from atd_dask.kernels.next_document import Batch, Sample
from atd_dask.kernels.philox import make_key


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


@contextmanager
def open_search_space(
    runner: Runner,
    test: Corpus,
    home: Corpus,
    vectors: BatchVectors,
    rules: DetectionRules,
    fitter: Fitter,
) -> Iterator[SearchSpace]:
    """Fit a batch, and the corpus `home` that donors are drawn from."""
    block, fit = fit_corpus(runner, home, fitter)
    beside = Sample(block, fit)
    pool = rules.make_pool(fitter, block, fit)
    if is_small(test):
        batch = fitter.batch(*fit_corpus(runner, test, fitter))
        yield WholeSearchSpace(fitter, batch, beside, pool, vectors, rules)
        return
    tests = runner.keep(hold, (fitter, pool), [None])
    shards = ShardedBatch(runner, test, fitter)
    try:
        yield ShardedSearchSpace(fitter, shards, beside, pool, vectors, rules, tests)
    finally:
        shards.close()
        runner.drop(tests)


def fit_corpus(runner: Runner, corpus: Corpus, fitter: Fitter) -> tuple[Block, Fit]:
    """Fit all documents of a corpus to the null model; return the documents and the fit."""
    blocks = range(len(corpus.block_starts) - 1)
    fits = list(runner.map(fit_corpus_block, (corpus, fitter), blocks))
    return corpus.rows(0, corpus.n_docs), Fit.concatenate(fits)


def fit_corpus_block(given: tuple[Corpus, Fitter], index: int) -> Fit:
    corpus, fitter = given
    block = corpus.block(index)
    fit = fitter.fit(block)
    count(documents_scored=len(block))
    return fit


@dataclass(frozen=True)
class WholeSearchSpace:
    """A batch that fits on every worker."""

    fitter: Fitter
    batch: Batch
    home: Sample
    pool: Pool  # of the tests of membership
    vectors: BatchVectors
    rules: DetectionRules

    def search(
        self, available: NDArray[np.bool_], known: Ints, key: tuple[object, ...]
    ) -> ClusterSearch:
        contrast = self.vectors.search(available, known, self.rules.max_size)
        return ClusterSearch(
            self.fitter, self.batch, available, self.rules, self.pool, contrast, key
        )

    def replicates(
        self, documents: Ints, outside: NDArray[np.bool_], key: tuple[object, ...]
    ) -> Replicates:
        pool = self.pool
        if self.rules.pool == "validation+batch":
            around = Sample.concatenate([self.home, self.batch.take(np.flatnonzero(outside))])
            pool = self.rules.make_pool(self.fitter, around.block, around.fit)
        return _draw_from(self.fitter, pool, self.batch.take(documents), key)


@dataclass(frozen=True)
class ShardedSearchSpace:
    """A batch in shards."""

    fitter: Fitter
    batch: ShardedBatch
    home: Sample
    pool: Pool  # of the tests of membership
    vectors: BatchVectors
    rules: DetectionRules
    tests: RemoteResults

    def search(
        self, available: NDArray[np.bool_], known: Ints, key: tuple[object, ...]
    ) -> ClusterSearch:
        return ShardedClusterSearch(
            self.fitter,
            self.batch,
            available,
            self.rules,
            self.pool,
            self.vectors.search(available, known, self.rules.max_size),
            key,
            self.tests,
        )

    def replicates(
        self, documents: Ints, outside: NDArray[np.bool_], key: tuple[object, ...]
    ) -> Replicates:
        cluster = self.batch.take(documents)
        if self.rules.pool != "validation+batch":
            return _draw_from(self.fitter, self.pool, cluster, key)
        return ShardedReplicates.of(
            self.fitter, cluster, self.home, self.batch, outside, self.rules, _purpose(key)
        )


def _draw_from(
    fitter: Fitter, pool: Pool, cluster: Sample, key: tuple[object, ...]
) -> WholeReplicates:
    theta = cluster.fit.proportions.dense(fitter.context.table.n_topics)
    return WholeReplicates(
        ClusterBootstrap.of(fitter, pool, theta, cluster.fit.lengths, _purpose(key))
    )


def _purpose(key: tuple[object, ...]) -> np.uint64:
    return make_key(*key, "significance")
