from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atd_dask.kernels.fitting import fit_block
from atd_dask.kernels.statistics import add_counts, collect_block
from tests import naive
from tests.kernels.strategies import corpora, make_block, models


def dense(expected, n_words):
    x = np.zeros((expected.n_topics, n_words))
    x[np.repeat(np.arange(len(x)), np.diff(expected.indptr)), expected.words] = expected.mass
    return x


@st.composite
def cases(draw):
    counts = draw(corpora())
    return counts, draw(models(counts.shape[1]))


@given(cases())
def test_expected_counts_are_the_equation(case):
    counts, (table, _) = case
    block = make_block(counts)
    fit = fit_block(block, table)
    expected = collect_block(block, table, fit.proportions)
    theta = fit.proportions.dense(table.n_topics)
    np.testing.assert_allclose(
        dense(expected, counts.shape[1]),
        naive.expected_counts(counts, theta, table.dense()),
        rtol=1e-9,
        atol=1e-12,
    )
    np.testing.assert_allclose(expected.proportion, theta.sum(axis=0))
    active = np.zeros_like(theta, bool)
    rows = np.repeat(np.arange(len(counts)), np.diff(fit.proportions.indptr))
    active[rows, fit.proportions.topics] = True
    assert expected.tokens.tolist() == (active * counts.sum(axis=1)[:, None]).sum(axis=0).tolist()


@given(cases(), st.integers(0, 6))
def test_blocks_add_up_to_the_whole(case, at):
    counts, (table, _) = case
    parts = []
    for piece in (counts[:at], counts[at:]):
        block = make_block(piece.reshape(-1, counts.shape[1]))
        parts.append(collect_block(block, table, fit_block(block, table).proportions))
    whole = make_block(counts)
    one = collect_block(whole, table, fit_block(whole, table).proportions)
    total = add_counts(parts, counts.shape[1])
    assert total.tokens.tolist() == one.tokens.tolist()
    assert total.words.tolist() == one.words.tolist()
    assert total.mass == pytest.approx(one.mass)
