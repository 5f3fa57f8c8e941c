from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atd_dask.kernels.fitting import fit_block
from atd_dask.kernels.statistics import (
    MOST_FRACTION_BITS,
    add_counts,
    collect_block,
    count_fraction_bits,
)
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
    expected = collect_block(block, table, fit.proportions).expected()
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


def list_arrays(counts):
    arrays = counts.indptr, counts.words, counts.mass, counts.tokens, counts.proportion
    return [array.tolist() for array in arrays]


@given(cases(), st.lists(st.integers(0, 6), max_size=4), st.randoms())
def test_parts_add_up_to_the_same_bits_in_any_order(case, cuts, rng):
    counts, (table, _) = case
    bits = count_fraction_bits(int(counts.sum()))

    def collect(some):
        block = make_block(some.reshape(-1, counts.shape[1]))
        return collect_block(block, table, fit_block(block, table).proportions, bits=bits)

    one = collect(counts)
    parts = [collect(some) for some in np.split(counts, sorted(cuts))]
    rng.shuffle(parts)
    total = add_counts(parts, counts.shape[1])
    assert list_arrays(total) == list_arrays(one)
    middle = (table.n_topics + 1) // 2
    halves = [(0, middle), (middle, table.n_topics)]
    for first, last in halves[: table.n_topics]:
        mine = add_counts([part.part(first, last) for part in parts], counts.shape[1])
        assert list_arrays(mine) == list_arrays(one.part(first, last))
        assert mine.first == first


@pytest.mark.parametrize("n_tokens", [0, 1, 10**4, 10**7, 10**11, 2**61])
def test_a_sum_over_all_tokens_has_room(n_tokens):
    bits = count_fraction_bits(n_tokens)
    assert 0 <= bits <= MOST_FRACTION_BITS
    assert (n_tokens + 1) << bits < 2**63
    assert bits == MOST_FRACTION_BITS or (n_tokens << (bits + 2)) >= 2**62
