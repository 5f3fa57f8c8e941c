from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atd_dask.kernels import word_switches
from atd_dask.kernels.word_sweeps import LEAST_WORDS, UnsureWords
from atd_dask.kernels.word_switches import (
    SharedModel,
    WordSwitches,
    encoding_cost,
    estimate_words,
    switch_words,
)
from tests import naive
from tests.kernels.strategies import dense_switches, make_expected, make_switches, word_counts


@given(word_counts())
def test_estimates_are_the_closed_form(case):
    x, shared, u, tokens = case
    table = estimate_words(make_expected(x, tokens), shared, make_switches(u))
    expected = naive.word_probabilities(x, u, shared.probabilities)
    np.testing.assert_allclose(table.dense(), expected, rtol=1e-9)
    np.testing.assert_allclose(table.dense().sum(axis=1), 1)


def check_single_switches(x, after, shared, tokens, price):
    """No single switch lowers the expected BIC at a price for each word."""
    reached = naive.expected_bic(x, after, shared.probabilities, tokens, price)
    for j in range(len(x)):
        for n in range(x.shape[1]):
            other = after.copy()
            other[j, n] = not after[j, n]
            if other[j].sum() >= LEAST_WORDS and x[j, other[j] & after[j]].sum() > 0:
                value = naive.expected_bic(x, other, shared.probabilities, tokens, price)
                assert reached <= value + 1e-7


@given(word_counts())
def test_sweeps_end_where_no_single_switch_lowers_the_expected_bic(case):
    """At the price of one more word. The expected BIC itself falls by no less than at that
    price."""
    x, shared, u, tokens = case
    price = encoding_cost(int(u.sum()), u.size)
    assert price == pytest.approx(naive.encoding_of_one_more(u.sum(), u.size), abs=1e-9)
    switches = switch_words(make_expected(x, tokens), shared, make_switches(u), price)
    after = dense_switches(switches, x.shape[1])
    check_single_switches(x, after, shared, tokens, price)
    falls = [
        naive.expected_bic(x, u, shared.probabilities, tokens, how)
        - naive.expected_bic(x, after, shared.probabilities, tokens, how)
        for how in (None, price)
    ]
    assert falls[0] >= falls[1] - 1e-9
    assert falls[1] >= -1e-9


@given(word_counts())
def test_updates_end_where_no_single_switch_lowers_the_expected_bic(case):
    """Up to how much more the last word cost than another one would. That is about one over the
    number of words that are on."""
    x, shared, u, tokens = case
    expected, switches = make_expected(x, tokens), make_switches(u)
    for _ in range(20):
        before = switches
        price = encoding_cost(len(switches.words), u.size)
        switches = switch_words(expected, shared, switches, price)
        if switches.words.tolist() == before.words.tolist():
            break
    after = dense_switches(switches, x.shape[1])
    n_on = int(after.sum())
    reached = naive.expected_bic(x, after, shared.probabilities, tokens)
    last, next_one = (naive.encoding_of_one_more(n, u.size) for n in (n_on - 1, n_on))
    slack = last - next_one
    for j in range(len(x)):
        for n in range(x.shape[1]):
            other = after.copy()
            other[j, n] = not after[j, n]
            if other[j].sum() >= LEAST_WORDS and x[j, other[j] & after[j]].sum() > 0:
                value = naive.expected_bic(x, other, shared.probabilities, tokens)
                assert reached <= value + (0 if other[j, n] else slack) + 1e-7


@given(word_counts())
def test_a_topic_may_pay_for_the_encoding_of_its_own_words(case):
    x, shared, u, tokens = case
    for j in range(len(x)):
        mine = make_expected(x[j : j + 1], tokens[j : j + 1])
        switches = switch_words(mine, shared, make_switches(u[j : j + 1]), weight=1.0)
        after = dense_switches(switches, x.shape[1])
        check_single_switches(x[j : j + 1], after, shared, tokens[j : j + 1], None)


@given(word_counts(), st.floats(0, 5))
def test_topics_do_not_depend_on_each_other(case, price):
    x, shared, u, tokens = case
    together = switch_words(make_expected(x, tokens), shared, make_switches(u), price)
    for j in range(len(x)):
        mine = make_expected(x[j : j + 1], tokens[j : j + 1])
        alone = switch_words(mine, shared, make_switches(u[j : j + 1]), price)
        assert together.part(j, j + 1).words.tolist() == alone.words.tolist()


def draw_counts(rng, n_topics, n_words, scale):
    x = rng.gamma(0.3, scale, (n_topics, n_words)) + (rng.random((n_topics, n_words)) < 0.5)
    x[rng.random(x.shape) < 0.3] = 0
    x[:, 0] += 1
    return make_expected(x, np.ceil(x.sum(axis=1)).astype(np.int64) + 20)


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_lists_of_unsure_words_change_no_switch(seed, occurring):
    """In topics whose sums hardly move, and in others that leave their windows again and again."""
    rng = np.random.default_rng(seed)
    expected = draw_counts(rng, 4, 400, 60.0)
    shared = SharedModel.from_counts(rng.integers(1, 400, 400))
    start = WordSwitches.occurring(expected)
    if not occurring:
        few = rng.random((4, 400)) < 0.1
        few[:, :2] = True
        start = make_switches(few)
    columns = (expected.indptr, expected.words, expected.mass, expected.tokens)
    for cost in ((1.5, 0.0), (0.0, 1.0)):
        without = UnsureWords.make(0, 400)
        indptr, words = word_switches._switch_words(
            columns, shared, start.indptr, start.words, *cost, without
        )
        mine = switch_words(expected, shared, start, *cost)
        assert mine.indptr.tolist() == indptr.tolist()
        assert mine.words.tolist() == words.tolist()
