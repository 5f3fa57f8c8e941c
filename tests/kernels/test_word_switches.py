from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atd_dask.kernels import word_switches
from atd_dask.kernels.word_switches import (
    SharedModel,
    WordSwitches,
    estimate_words,
    switch_words,
)
from tests import naive
from tests.kernels.compiled import callable_kernel
from tests.kernels.strategies import dense_switches, make_expected, make_switches

switch_gain = callable_kernel(word_switches.switch_gain)
gain_limit = callable_kernel(word_switches.gain_limit)
is_far = callable_kernel(word_switches.is_far)


@st.composite
def cases(draw):
    n_topics = draw(st.integers(1, 3))
    n_words = draw(st.integers(3, 7))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    x = rng.gamma(0.4, 30.0, (n_topics, n_words))
    x[rng.random(x.shape) < 0.3] = 0
    x[:, 0] += 1
    shared = SharedModel.from_counts(rng.integers(1, 40, n_words))
    u = rng.random(x.shape) < 0.7
    u[:, :2] = True
    tokens = np.ceil(x.sum(axis=1)).astype(np.int64) + rng.integers(0, 50, n_topics)
    return x, shared, u, tokens


@given(cases())
def test_estimates_are_the_closed_form(case):
    x, shared, u, tokens = case
    table = estimate_words(make_expected(x, tokens), shared, make_switches(u))
    expected = naive.word_probabilities(x, u, shared.probabilities)
    np.testing.assert_allclose(table.dense(), expected, rtol=1e-9)
    np.testing.assert_allclose(table.dense().sum(axis=1), 1)


@given(cases(), st.integers(0, 1000))
def test_change_of_a_word_switch_is_the_difference_of_two_evaluations(case, pick):
    x, shared, u, tokens = case
    j, n = divmod(pick % x.size, x.shape[1])
    flipped = u.copy()
    flipped[j, n] = not u[j, n]
    if flipped[j].sum() < 2 or u[j].sum() < 2 or x[j, u[j] & flipped[j]].sum() == 0:
        return
    others = u[j] & flipped[j]
    gain = switch_gain(
        x[j, n], shared.probabilities[n], x[j, others].sum(), shared.probabilities[others].sum()
    )
    places = u.size
    on = max(u.sum(), flipped.sum())
    price = (
        0.5 * np.log(tokens[j] / (2 * np.pi))
        + word_switches.entropy_cost(on, places)
        - word_switches.entropy_cost(on - 1, places)
    )
    change = price - gain if flipped[j, n] else gain - price
    before = naive.expected_bic(x, u, shared.probabilities, tokens)
    after = naive.expected_bic(x, flipped, shared.probabilities, tokens)
    assert change == pytest.approx(after - before, rel=1e-8, abs=1e-8 * abs(before))


@given(cases())
def test_limit_is_above_the_gain(case):
    x, shared, u, _ = case
    for j in range(len(x)):
        for n in range(x.shape[1]):
            others = u[j] & (np.arange(x.shape[1]) != n)
            mass, rest = x[j, others].sum(), shared.probabilities[others].sum()
            if mass > 0:
                arguments = (x[j, n], shared.probabilities[n], mass, rest)
                assert switch_gain(*arguments) <= gain_limit(*arguments) + 1e-9


@given(cases(), st.floats(0.1, 20))
def test_words_that_are_far_from_changing_do_not_change(case, cost):
    x, shared, u, _ = case
    for j in range(len(x)):
        mass, base = x[j, u[j]].sum(), shared.probabilities[u[j]].sum()
        for n in range(x.shape[1]):
            mine, probability = x[j, n], shared.probabilities[n]
            if not is_far(u[j, n], mine, probability * mass / base, cost, cost):
                continue
            if not u[j, n]:
                assert switch_gain(mine, probability, mass, base) <= cost
            elif mass > mine and base > probability:
                gain = switch_gain(mine, probability, mass - mine, base - probability)
                assert gain >= cost


@given(cases())
def test_sweeps_end_where_no_single_switch_lowers_the_expected_bic(case):
    x, shared, u, tokens = case
    switches = switch_words(make_expected(x, tokens), shared, make_switches(u))
    after = dense_switches(switches, x.shape[1])
    reached = naive.expected_bic(x, after, shared.probabilities, tokens)
    assert reached <= naive.expected_bic(x, u, shared.probabilities, tokens) + 1e-9
    for j in range(len(x)):
        for n in range(x.shape[1]):
            other = after.copy()
            other[j, n] = not after[j, n]
            if other[j].sum() >= word_switches.LEAST_WORDS and x[j, other[j] & after[j]].sum() > 0:
                value = naive.expected_bic(x, other, shared.probabilities, tokens)
                assert reached <= value + 1e-7


@given(st.integers(0, 2**32 - 1))
def test_topics_that_are_skipped_would_not_have_changed(seed):
    """Sweeping over every topic each time, settled or not, ends with the same words."""
    rng = np.random.default_rng(seed)
    n_topics, n_words = 8, 60
    x = rng.gamma(0.3, 12.0, (n_topics, n_words)) + (rng.random((n_topics, n_words)) < 0.5)
    x[rng.random(x.shape) < 0.3] = 0
    x[:, 0] += 1
    expected = make_expected(x, np.ceil(x.sum(axis=1)).astype(np.int64) + 20)
    shared = SharedModel.from_counts(rng.integers(1, 40, n_words))
    start = WordSwitches.occurring(expected)
    columns = (expected.indptr, expected.words, expected.mass, expected.tokens)
    switches = start
    for _ in range(word_switches.MAX_SWEEPS):
        unknown = np.full((n_topics, 2), np.inf)
        indptr, words = word_switches._switch_words(
            columns, shared, switches.indptr, switches.words, 1.0, unknown
        )
        before, switches = switches, WordSwitches(indptr, words[: indptr[-1]])
        if np.array_equal(before.words, switches.words):
            break
    mine = switch_words(expected, shared, start)
    assert mine.indptr.tolist() == switches.indptr.tolist()
    assert mine.words.tolist() == switches.words.tolist()


@given(st.integers(0, 2**32 - 1))
def test_a_topic_that_is_added_stands_after_the_others(seed):
    rng = np.random.default_rng(seed)
    n_topics, n_words = rng.integers(1, 4), rng.integers(3, 9)
    shared = rng.dirichlet(np.ones(n_words))
    specific = rng.random((n_topics + 1, n_words)) < 0.5
    probabilities = rng.dirichlet(np.ones(n_words), n_topics + 1) + 1e-6
    whole = word_switches.make_table(shared, specific, probabilities)
    table = word_switches.make_table(shared, specific[:-1], probabilities[:-1])
    grown = word_switches.add_topic(table, specific[-1], probabilities[-1])
    assert grown.n_topics == whole.n_topics
    for mine, other in zip(grown[1:], whole[1:], strict=True):
        np.testing.assert_array_equal(mine, other)
        assert mine.dtype == other.dtype
