"""What a search finds where there is nothing to find.

The test of a cluster asks how a given set of documents scores; it does not know that the set was
searched for. So the same search is run in batches that hold no anomaly: training documents that are
held out, under the null model without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from atd_dask.kernels.blocks import Corpus
from atd_dask.kernels.model import Block, Ints, WordTable
from atd_dask.kernels.passes import LocalPasses
from atd_dask.kernels.streams import open_stream
from atd_dask.kernels.training import (
    FIRST_ROUNDS,
    Convergence,
    CostTerms,
    OrderRange,
    SearchState,
    search_orders,
)
from atd_dask.kernels.wording import SharedModel


def draw_held_out(n_train: int, n_batch: int, seed: int, index: int) -> Ints:
    """Training documents that stand for a batch; never more than half of them."""
    stream = open_stream(seed, f"reference/{index}")
    return np.sort(stream.permutation(n_train)[: min(n_batch, n_train // 2)])


@dataclass(frozen=True)
class WithoutRows(Sequence[Block]):
    """The blocks of a corpus without some of its documents, read when they are asked for."""

    corpus: Corpus
    rows: Ints  # ascending

    def __len__(self) -> int:
        return len(self.corpus.block_starts) - 1

    def __getitem__(self, index: int) -> Block:  # type: ignore[override]
        if not 0 <= index < len(self):
            raise IndexError(index)
        block = self.corpus.block(index)
        kept = np.ones(len(block), dtype=np.bool_)
        inside = (self.rows >= block.start) & (self.rows < block.start + len(block))
        kept[self.rows[inside] - block.start] = False
        return block.take(np.flatnonzero(kept))


def take_documents(corpus: Corpus, rows: Ints) -> Block:
    """Some documents of a corpus, ascending, with no more than a block in memory beside them."""
    parts = []
    for index, (start, stop) in enumerate(pairwise(corpus.block_starts.tolist())):
        mine = rows[(rows >= start) & (rows < stop)]
        parts.append(corpus.block(index).take(mine - start))
    return Block.concatenate(parts)


def refit(
    table: WordTable,
    rest: Sequence[Block],
    convergence: Convergence,
    terms: CostTerms | None = None,
) -> WordTable:
    """A model trained on other documents, with the topics of `table` to start from."""
    passes = LocalPasses(rest, table.n_words)
    shared = SharedModel.from_counts(passes.count_words())
    state = search_orders(
        passes,
        shared,
        SearchState(table, iteration=-FIRST_ROUNDS),
        OrderRange(table.n_topics, table.n_topics),
        convergence,
        terms or CostTerms(),
    )
    assert state.best is not None
    return state.best
