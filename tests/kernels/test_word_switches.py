from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from atd_dask.kernels import word_switches
from atd_dask.kernels.word_sweeps import LEAST_WORDS, UnsureWords
from atd_dask.kernels.word_switches import (
    SharedModel,
    WordSwitches,
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


@given(word_counts())
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
            if other[j].sum() >= LEAST_WORDS and x[j, other[j] & after[j]].sum() > 0:
                value = naive.expected_bic(x, other, shared.probabilities, tokens)
                assert reached <= value + 1e-7


def sweep_over_all(expected, shared, switches, n_listed):
    """Sweep over every topic each time, settled or not; at most `n_listed` words have room in
    lists."""
    columns = (expected.indptr, expected.words, expected.mass, expected.tokens)
    for _ in range(word_switches.MAX_SWEEPS):
        unknown = np.full((expected.n_topics, 2), np.inf)
        unsure = UnsureWords.make(expected.n_topics, n_listed, len(shared.probabilities))
        indptr, words = word_switches._switch_words(
            columns, shared, switches.indptr, switches.words, 1.0, unknown, unsure
        )
        before, switches = switches, WordSwitches(indptr, words[: indptr[-1]])
        if np.array_equal(before.words, switches.words):
            break
    return switches


def draw_counts(rng, n_topics, n_words, scale):
    x = rng.gamma(0.3, scale, (n_topics, n_words)) + (rng.random((n_topics, n_words)) < 0.5)
    x[rng.random(x.shape) < 0.3] = 0
    x[:, 0] += 1
    return make_expected(x, np.ceil(x.sum(axis=1)).astype(np.int64) + 20)


@given(st.integers(0, 2**32 - 1))
def test_topics_that_are_skipped_would_not_have_changed(seed):
    rng = np.random.default_rng(seed)
    expected = draw_counts(rng, 8, 60, 12.0)
    shared = SharedModel.from_counts(rng.integers(1, 40, 60))
    start = WordSwitches.occurring(expected)
    other = sweep_over_all(expected, shared, start, len(expected.words))
    mine = switch_words(expected, shared, start)
    assert mine.indptr.tolist() == other.indptr.tolist()
    assert mine.words.tolist() == other.words.tolist()


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
    other = sweep_over_all(expected, shared, start, 0)
    mine = switch_words(expected, shared, start)
    assert mine.indptr.tolist() == other.indptr.tolist()
    assert mine.words.tolist() == other.words.tolist()
