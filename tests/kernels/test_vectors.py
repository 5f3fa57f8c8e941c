"""Documents as tf-idf vectors."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from atd_dask.kernels.vectors import Vectors, WordIndex, find_idf, weigh_words
from tests import naive
from tests.kernels.strategies import make_block

counts = arrays.arrays(
    np.int64, st.tuples(st.integers(2, 6), st.just(5)), elements=st.integers(0, 4)
)


def dense(vectors, n_words):
    found = np.zeros((len(vectors), n_words))
    owners = np.repeat(np.arange(len(vectors)), np.diff(vectors.indptr))
    found[owners, vectors.terms] = vectors.values
    return found


@given(counts, counts)
@settings(max_examples=100, deadline=None)
def test_vectors_are_those_of_the_definition(batch, normal):
    idf = find_idf((batch > 0).sum(axis=0), len(batch), (normal > 0).sum(axis=0), len(normal))
    vectors = Vectors.of(make_block(batch), idf)
    np.testing.assert_allclose(dense(vectors, 5), naive.tf_idf(batch, batch, normal), atol=1e-12)


@given(counts)
@settings(max_examples=50, deadline=None)
def test_scores_by_word_are_those_by_document_to_the_bit(batch):
    idf = weigh_words((batch > 0).sum(axis=0), len(batch) + 3)
    vectors = Vectors.of(make_block(batch), idf)
    words, direction = np.array([0, 2, 4]), np.array([0.3, 1.7, 0.11])
    scores = WordIndex.of(vectors, 5).score(words, direction)
    weights = dict(zip(words.tolist(), direction.tolist(), strict=True))
    for document, score in enumerate(scores):
        total = 0.0
        for entry in range(vectors.indptr[document], vectors.indptr[document + 1]):
            if vectors.values[entry] > 0:
                total += weights.get(int(vectors.terms[entry]), 0.0) * vectors.values[entry]
        assert score == total


def test_a_word_of_one_document_says_nothing():
    assert weigh_words(np.array([0, 1, 2]), 9).tolist()[:2] == [0.0, 0.0]
    assert weigh_words(np.array([0, 1, 2]), 9)[2] > 0


def test_documents_are_taken_in_the_given_order():
    batch = np.array([[1, 2, 0], [0, 1, 1], [3, 0, 1]])
    vectors = Vectors.of(make_block(batch), np.ones(3))
    taken = vectors.take(np.array([2, 0]))
    np.testing.assert_array_equal(dense(taken, 3), dense(vectors, 3)[[2, 0]])
