"""Blocks, proportions and tables as arrays of rows."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from atd_dask.kernels.model import Block, Proportions, take_rows
from atd_dask.kernels.word_switches import make_table
from tests.kernels.strategies import make_block

COUNTS = np.array([[1, 0, 2], [0, 0, 0], [0, 3, 1], [4, 0, 0]])


def dense(block: Block) -> list[list[int]]:
    out = np.zeros((len(block), 3), np.int64)
    rows = np.repeat(np.arange(len(block)), np.diff(block.indptr))
    out[rows, block.terms] = block.counts
    return out.tolist()


@given(st.lists(st.integers(0, 3)))
def test_documents_are_taken_in_any_order(rows: list[int]) -> None:
    taken = make_block(COUNTS).take(np.array(rows, dtype=np.int64))
    assert dense(taken) == COUNTS[rows].tolist()


def test_blocks_are_joined() -> None:
    parts = [make_block(COUNTS[:1]), make_block(COUNTS[1:])]
    assert dense(Block.concatenate(parts)) == COUNTS.tolist()


def test_rows_of_a_matrix() -> None:
    indptr, entries = take_rows(np.array([0, 2, 2, 5]), np.array([2, 0]))
    assert indptr.tolist() == [0, 3, 5]
    assert entries.tolist() == [2, 3, 4, 0, 1]


def test_proportions_as_a_matrix() -> None:
    indptr, topics = np.array([0, 2, 2, 3]), np.array([0, 2, 1], dtype=np.int32)
    proportions = Proportions(indptr, topics, np.array([0.25, 0.75, 1.0]))
    assert proportions.dense(3).tolist() == [[0.25, 0, 0.75], [0, 0, 0], [0, 1, 0]]
    assert proportions.part(1, 3).dense(3).tolist() == [[0, 0, 0], [0, 1, 0]]
    assert proportions.take(np.array([2, 0])).dense(3).tolist() == [[0, 1, 0], [0.25, 0, 0.75]]
    assert not Proportions.empty(2).dense(3).any()


def test_a_table_has_shared_and_specific_probabilities() -> None:
    shared = np.array([0.5, 0.25, 0.25])
    specific = np.array([[True, False, True], [False, False, True]])
    own = np.array([[0.7, 0.0, 0.05], [0.0, 0.0, 0.1]])
    table = make_table(shared, specific, own)
    assert table.dense().tolist() == [[0.7, 0.25, 0.05], [0.5, 0.25, 0.1]]
    assert table.specific_words().tolist() == [2, 1]
    np.testing.assert_allclose(table.excess, table.probabilities - shared[[0, 2, 2]])
    np.testing.assert_allclose(table.log_ratio, np.log(table.probabilities / shared[[0, 2, 2]]))
