"""The vectors for the contrast search: a batch in memory or in shards.

A batch that is small enough for every worker stays whole. A larger one is cut into shards, which
stay on the workers that read them: every direction goes to all shards at once, and the best
documents of each are merged. A document has the same score wherever it is stored, so the results
are the same, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atd_dask.distribution import shards
from atd_dask.distribution.engine.alignment import align
from atd_dask.distribution.engine.runner import RemoteResults, Runner
from atd_dask.distribution.newwords import count_corpus
from atd_dask.kernels.blocks import Corpus, join_blocks
from atd_dask.kernels.calibration import SomeRows
from atd_dask.kernels.contrast import ContrastSearch, NormalVectors
from atd_dask.kernels.model import Block, Floats, Ints
from atd_dask.kernels.vectors import (
    Direction,
    Ranking,
    VectorBatch,
    Vectors,
    WholeVectors,
    WordIndex,
    add_ratios,
    find_idf,
)

# The largest batch that goes to every worker: 600 MB with its vectors. A search asks hundreds of
# short questions one after the other, so it is far cheaper where all documents are.
SMALL_ENTRIES = 2**24

# As many entries of normal documents go along with a search as the batch has, within these bounds:
# then they say as much about what is usual as the batch does about what is in excess.
LEAST_NORMAL_ENTRIES = 2**21
MOST_NORMAL_ENTRIES = 2**24


def is_small(batch: Corpus) -> bool:
    return batch.n_entries <= SMALL_ENTRIES


def limit_normal(n_entries: int) -> int:
    """Return how many entries of normal documents a batch of `n_entries` is compared with."""
    return min(max(n_entries, LEAST_NORMAL_ENTRIES), MOST_NORMAL_ENTRIES)


@dataclass(frozen=True)
class BatchVectors:
    """The vectors of a batch, and of the normal documents that it is compared with."""

    batch: VectorBatch
    normal: NormalVectors
    there: Sequence[Any] = ()  # handles of the same vectors on workers

    def search(
        self, available: NDArray[np.bool_], known: Ints, max_size: int | None
    ) -> ContrastSearch:
        """Return the search among the available documents that are not `known`."""
        normal = self.normal
        if len(known):
            available = available.copy()
            available[known] = False
            n_batch = int(np.count_nonzero(available))
            normal = normal.with_known(self.batch.take(np.sort(known)), n_batch)
        return ContrastSearch(self.batch, normal, available, max_size)


@contextmanager
def open_vectors(
    runner: Runner, test: Corpus, normal: Corpus, unseen: bool, on_workers: bool = False
) -> Iterator[BatchVectors]:
    """Make the vectors of a batch and of evenly spaced normal documents, as many as fit. Words that
    the normal documents lack count only if `unseen`. With `on_workers`, workers have those of a
    small batch too."""
    n_words = max(test.n_words, normal.n_words)
    step = max(-(-normal.n_entries // limit_normal(test.n_entries)), 1)
    chosen = SomeRows(normal, np.arange(0, normal.n_docs, step))
    beside = chosen.rows(0, chosen.n_docs)
    n_with, _ = count_corpus(runner, test, n_words)
    n_with_normal = np.bincount(beside.terms, minlength=n_words)
    idf = find_idf(n_with, test.n_docs, n_with_normal, chosen.n_docs)
    if not unseen:
        idf[n_with_normal == 0] = 0.0
    if not is_small(test):
        sharded = ShardedVectors.of(runner, test, idf)
        try:
            yield BatchVectors(sharded, NormalVectors.of(beside, idf))
        finally:
            runner.drop(sharded.shards)
        return
    vectors = compare(test.rows(0, test.n_docs), beside, idf)
    if not on_workers:
        yield vectors
        return
    there = runner.remake(vectors, make_vectors, (test, chosen, idf))
    try:
        yield replace(vectors, there=there.results)
    finally:
        runner.drop(there)


def compare(batch: Block, beside: Block, idf: Floats) -> BatchVectors:
    whole = WholeVectors(Vectors.of(batch, idf), len(idf))
    return BatchVectors(whole, NormalVectors.of(beside, idf))


def make_vectors(given: tuple[Corpus, Corpus, Floats], _: None) -> BatchVectors:
    """Make the vectors of a small batch where they are needed: the documents are read there."""
    batch, beside, idf = given
    return compare(batch.rows(0, batch.n_docs), beside.rows(0, beside.n_docs), idf)


@dataclass(frozen=True)
class VectorShard:
    """Consecutive documents of a batch, and their vectors by word. Immutable."""

    block: Block
    index: WordIndex
    start: int

    def __sizeof__(self) -> int:
        return self.block.__sizeof__() + self.index.__sizeof__()

    def best(self, scores: Floats, gone: Ints, most: int, above: float = 0.0) -> Ranking:
        scores[gone] = 0.0
        return Ranking.of(np.arange(len(self.block)) + self.start, scores, most, above)


def index_shard(given: tuple[Corpus, Floats], rows: tuple[int, int]) -> VectorShard:
    corpus, idf = given
    block = corpus.rows(*rows)
    return VectorShard(block, WordIndex.of(Vectors.of(block, idf), len(idf)), rows[0])


def rank_in_shard(shard: VectorShard, question: tuple[Ints, Direction, int, float]) -> Ranking:
    gone, direction, most, above = align(question)
    return shard.best(shard.index.score(*direction), gone, most, above)


def rank_unexpected_in_shard(shard: VectorShard, question: tuple[Ints, Floats, int]) -> Ranking:
    gone, ratios, most = align(question)
    return shard.best(add_ratios(shard.block.indptr, shard.block.terms, ratios), gone, most)


def count_in_shard(shard: VectorShard, question: tuple[Ints, int]) -> Ints:
    gone, n_words = question
    counted = np.ones(len(shard.block), dtype=np.bool_)
    counted[gone] = False
    entries = np.repeat(counted, np.diff(shard.block.indptr))
    return np.bincount(shard.block.terms[entries], minlength=n_words)


def take_from_shard(shard: VectorShard, rows: Ints) -> Block:
    return shard.block.take(rows)


@dataclass(frozen=True)
class ShardedVectors:
    """A batch in shards, on the workers of a cluster or in this process."""

    runner: Runner
    shards: RemoteResults
    starts: Ints  # the first document of every shard, and the number of documents
    idf: Floats

    @classmethod
    def of(cls, runner: Runner, test: Corpus, idf: Floats) -> ShardedVectors:
        starts = join_blocks(test, shards.BLOCKS_PER_SHARD)
        pieces = list(pairwise(starts.tolist()))
        return cls(runner, runner.keep(index_shard, (test, idf), pieces), starts, idf)

    def __len__(self) -> int:
        return int(self.starts[-1])

    def take(self, documents: Ints) -> Vectors:
        order = np.argsort(documents, kind="stable")
        parts = self._cut(documents[order])
        asked = [(number, rows) for number, rows in enumerate(parts) if len(rows)]
        nothing = Block(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32))
        found = self.runner.ask(take_from_shard, self.shards, asked)
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return Vectors.of(Block.concatenate([nothing, *found]).take(back), self.idf)

    def count_documents(self, available: NDArray[np.bool_]) -> Ints:
        asked = [(n, (gone, len(self.idf))) for n, gone in enumerate(self._gone(available))]
        counts: list[Ints] = self.runner.ask(count_in_shard, self.shards, asked)
        return np.asarray(np.sum(counts, axis=0))

    def rank(
        self, direction: Direction, available: NDArray[np.bool_], most: int, above: float = 0.0
    ) -> Ranking:
        some = np.flatnonzero(direction.weights)
        short = Direction(direction.words[some], direction.weights[some])
        asked = [(n, (gone, short, most, above)) for n, gone in enumerate(self._gone(available))]
        return Ranking.merge(self.runner.ask(rank_in_shard, self.shards, asked), most)

    def rank_unexpected(self, ratios: Floats, available: NDArray[np.bool_], most: int) -> Ranking:
        asked = [(n, (gone, ratios, most)) for n, gone in enumerate(self._gone(available))]
        return Ranking.merge(self.runner.ask(rank_unexpected_in_shard, self.shards, asked), most)

    def _gone(self, available: NDArray[np.bool_]) -> list[Ints]:
        return self._cut(np.flatnonzero(~available))

    def _cut(self, rows: Ints) -> list[Ints]:
        """Split rows, in ascending order, into those of each shard."""
        cuts = np.searchsorted(rows, self.starts)
        return [rows[cuts[n] : cuts[n + 1]] - self.starts[n] for n in range(len(self.starts) - 1)]
