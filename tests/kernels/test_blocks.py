"""Blocks depend on the documents, not on how they arrive."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from atd_dask.kernels.blocks import BlockCutter, MemoryCorpus
from tests.kernels.strategies import make_block

sizes = st.lists(st.integers(0, 9), max_size=30)


@given(sizes, st.lists(st.integers(0, 30), max_size=4))
def test_blocks_do_not_depend_on_how_documents_arrive(sizes: list[int], cuts: list[int]) -> None:
    ends = np.cumsum(sizes, dtype=np.int64)
    whole, pieces = BlockCutter(10, 4), BlockCutter(10, 4)
    whole.extend(0, ends)
    bounds = sorted({0, len(sizes), *(min(cut, len(sizes)) for cut in cuts)})
    for first, last in pairwise(bounds):
        pieces.extend(first, ends[first:last])
    assert whole.finish(len(sizes)) == pieces.finish(len(sizes))


@given(sizes)
def test_a_block_ends_with_the_document_that_fills_it(sizes: list[int]) -> None:
    cutter = BlockCutter(10, 4)
    cutter.extend(0, np.cumsum(sizes, dtype=np.int64))
    starts = cutter.finish(len(sizes))
    assert starts[0] == 0
    assert starts[-1] == len(sizes)
    for first, last in pairwise(starts[:-1]):
        assert sum(sizes[first : last - 1]) < 10
        assert last - first == 4 or sum(sizes[first:last]) >= 10


def test_a_corpus_in_memory_reads_any_rows() -> None:
    counts = np.array([[1, 0, 2], [0, 0, 0], [0, 3, 1]])
    corpus = MemoryCorpus(make_block(counts), 3, np.array([0, 2, 3]))
    assert (corpus.n_docs, corpus.n_entries) == (3, 4)
    assert corpus.lengths().tolist() == [3, 0, 4]
    assert [block.start for block in corpus.blocks()] == [0, 2]
    assert corpus.rows(2, 3).terms.tolist() == [1, 2]
    again = MemoryCorpus.read(corpus)
    assert again.digest == corpus.digest
    assert again.block_starts.tolist() == [0, 2, 3]
    assert MemoryCorpus(make_block(counts[:2]), 3).digest != corpus.digest
