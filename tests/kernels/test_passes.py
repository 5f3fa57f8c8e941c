from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from atd_dask.kernels import passes
from atd_dask.kernels.fitting import assign_block
from atd_dask.kernels.model import Proportions
from atd_dask.kernels.passes import Blocks, add_sums, anchors_in, fit_blocks
from atd_dask.kernels.statistics import collect_block
from atd_dask.kernels.word_switches import SharedModel, WordSwitches, estimate_words
from tests.kernels.strategies import make_block, make_expected

ONE = np.array([0, 1])  # a block of one document


def test_a_topic_keeps_its_anchor_across_blocks_even_at_no_proportion():
    """An anchor may hold its topic at proportion 0; blocks without it must not lose it."""
    shared = SharedModel.from_counts(np.array([4, 4, 2]))
    x = np.array([[6.0, 1.0, 1.0], [1e-9, 1e-9, 9.0]])
    table = estimate_words(make_expected(x), shared, WordSwitches.occurring(make_expected(x)))
    first = make_block([[30, 10, 0]])
    second = make_block([[20, 20, 0]])
    start = Proportions(np.array([0, 2]), np.array([0, 1], np.int32), np.array([1.0, 0.0]))
    anchored = np.array([-1, 0])
    free = np.array([-1, -1])
    slope = np.zeros(2)
    parts = [
        fit_blocks(Blocks(first, ONE), table, assign_block(first, table), slope, free, 40),
        fit_blocks(Blocks(replace(second, start=1), ONE), table, start, slope, anchored, 40),
    ]
    assert parts[1][0].theta.tolist() == [1.0, 0.0]
    whole = add_sums([sums for _, sums in parts], 3)
    assert whole.anchors.tolist() == [0, 1]
    assert whole.counts.tokens.tolist() == [80, 40]


def list_sums(sums):
    counts = sums.counts
    arrays = counts.indptr, counts.words, counts.mass, counts.tokens, counts.proportion
    others = sums.likelihoods, sums.costs, sums.anchors, sums.anchor_weights
    return [array.tolist() for array in (*arrays, *others)], sums.n_active, sums.n_docs


@pytest.mark.parametrize(("fitted", "collected"), [(8, 64), (1, 1), (3, 4), (2, 10)])
def test_blocks_have_the_same_sums_together_and_alone(fitted, collected, monkeypatch):
    rng = np.random.default_rng(6)
    counts = rng.poisson(0.8, (40, 12)) + np.eye(40, 12, dtype=int)
    shared = SharedModel.from_counts(counts.sum(axis=0))
    x = make_expected(rng.gamma(0.5, 20.0, (5, 12)) + 1e-3)
    table = estimate_words(x, shared, WordSwitches.occurring(x))
    whole = make_block(counts)
    start = assign_block(whole, table)
    anchors = np.array([0, 5, 17, 38, -1])
    slope = np.full(5, 0.01)
    parts = []
    for first in range(0, 40, 4):
        last = first + 4
        block = Blocks(whole.part(first, last), np.array([0, 4]))
        inside = anchors_in(anchors, first, last)
        parts.append(fit_blocks(block, table, start.part(first, last), slope, inside, 40))
        collected_again = collect_block(block.documents, table, parts[-1][0], bits=40)
        assert collected_again.mass.tolist() == parts[-1][1].counts.mass.tolist()
    monkeypatch.setattr(passes, "FITTED_BLOCKS", fitted)
    monkeypatch.setattr(passes, "COLLECTED_BLOCKS", collected)
    blocks = Blocks(whole, np.arange(0, 41, 4))
    proportions, sums = fit_blocks(blocks, table, start, slope, anchors, 40)
    alone = Proportions.concatenate([mine for mine, _ in parts])
    for one, other in zip(proportions.arrays, alone.arrays, strict=True):
        np.testing.assert_array_equal(one, other)
    assert list_sums(sums) == list_sums(add_sums([mine for _, mine in parts], 12))
