"""Words that more documents have than expected, and the documents that have them."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from atd_dask.kernels.starts import (
    LEAST_DOCUMENTS,
    LEAST_EXCESS,
    MOST_DOCUMENTS,
    Having,
    UnexpectedWords,
    choose_apart,
    count_documents,
    find_having,
)
from tests import naive
from tests.kernels.strategies import corpora, make_block


@given(corpora(min_docs=4), st.integers(0, 200))
@settings(max_examples=30)
def test_words_are_compared_as_in_the_definition(counts, n_normal):
    usual = np.arange(counts.shape[1]) % (n_normal + 1)
    shared = np.ones(counts.shape[1])
    shared[0] = 0.0
    everyone = np.ones(len(counts), bool)
    n_with = count_documents(make_block(counts), everyone, counts.shape[1])
    np.testing.assert_array_equal(n_with, (counts > 0).sum(axis=0))
    words = UnexpectedWords.of(n_with, len(counts), usual, n_normal, shared)
    for word in range(counts.shape[1]):
        n = int(n_with[word])
        excess = naive.excess(n, len(counts), usual[word], n_normal) if n >= LEAST_DOCUMENTS else 0
        np.testing.assert_allclose(words.excess[word], excess, atol=1e-12)
        expected = len(counts) * (usual[word] + 0.5) / (n_normal + 1)
        lift = math.log(n / expected) if excess >= LEAST_EXCESS and word else 0.0
        np.testing.assert_allclose(words.lifts[word], lift)


def draw_words(repeated=1):
    """Ten of 40 documents have words 0 to 2; word 3 stands `repeated` times in one of them."""
    counts = np.zeros((40, 6), int)
    counts[:, 5] = 2
    counts[:10, :3] = 1
    counts[0, 3] = repeated
    return counts


def test_a_word_is_not_unexpected_because_one_document_repeats_it():
    shared = np.full(6, 1 / 6)
    everyone = np.ones(40, bool)
    usual = np.array([1, 1, 1, 1, 1, 999])
    for repeated in (1, 2000):
        n_with = count_documents(make_block(draw_words(repeated)), everyone, 6)
        words = UnexpectedWords.of(n_with, 40, usual, 1000, shared)
        assert words.first(6).tolist() == [0, 1, 2]
        assert words.first(2).tolist() == [0, 1]


def test_the_documents_of_a_word_come_with_most_unexpected_words_first():
    counts = draw_words()
    counts[3:10, 1:3] = 0
    lifts = np.array([1.0, 2.0, 0.5, 0.0, 0.0, 0.0])
    available = np.ones(40, bool)
    available[1] = False
    first, second = find_having(make_block(counts), available, lifts, np.array([0, 2]), start=100)
    assert second.rows.tolist() == [102, 100]
    assert first.rows.tolist() == [102, 100, *range(103, 110)]
    # In pieces the same documents come out.
    parts = [
        find_having(make_block(counts[:5]), available[:5], lifts, np.array([0, 2]), 100),
        find_having(make_block(counts[5:]), available[5:], lifts, np.array([0, 2]), 105),
    ]
    joined = [Having.concatenate(pair).first(MOST_DOCUMENTS) for pair in zip(*parts, strict=True)]
    for whole, pieces in zip((first, second), joined, strict=True):
        np.testing.assert_array_equal(whole.rows, pieces.rows)


def test_sets_that_are_nearly_the_same_count_once():
    sets = [np.arange(10), np.arange(1, 10), np.arange(5, 20), np.arange(30, 33)]
    chosen = choose_apart(sets, 3)
    assert [len(documents) for documents in chosen] == [10, 15, 3]
    assert len(choose_apart(sets, 1)) == 1
