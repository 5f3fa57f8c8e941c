"""Generated documents are the same everywhere, and planted groups share a new topic."""

from __future__ import annotations

import hashlib

import numpy as np

from atd_dask.evaluation.generated import Planted, Shape, count_tokens, generate_documents

SHAPE = Shape(n_train=40, n_words=300, topics=(3, 3), lengths=(50, 50), own_words=20)
PLANTED = [Planted("one", 6, 0.9), Planted("two", 4, 0.9)]


def test_tokens_are_counted() -> None:
    block = count_tokens(np.array([0, 0, 2, 0]), np.array([4, 1, 4, 4]), 3, 5)
    assert block.indptr.tolist() == [0, 2, 2, 3]
    assert block.terms.tolist() == [1, 4, 4]
    assert block.counts.tolist() == [1, 2, 1]


def test_the_same_seed_gives_the_same_documents() -> None:
    first, labels = generate_documents(1, "tests", SHAPE, 30, PLANTED)
    again, _ = generate_documents(1, "tests", SHAPE, 30, PLANTED)
    other, _ = generate_documents(2, "tests", SHAPE, 30, PLANTED)
    digest = [hashlib.sha256(b"".join(a.tobytes() for a in one.arrays)) for one in (first, again)]
    assert digest[0].digest() == digest[1].digest()
    assert first.terms.tolist() != other.terms.tolist()
    assert labels[30:] == [("one",)] * 6 + [("two",)] * 4


def test_documents_of_a_group_resemble_each_other() -> None:
    block, _ = generate_documents(1, "tests", SHAPE, 30, PLANTED)
    counts = np.zeros((len(block), SHAPE.n_words))
    rows = np.repeat(np.arange(len(block)), np.diff(block.indptr))
    counts[rows, block.terms] = block.counts
    counts /= np.linalg.norm(counts, axis=1, keepdims=True)
    similar = counts @ counts.T
    assert similar[30:36, 30:36].mean() > similar[30:36, :30].mean() + 0.1
    assert similar[36:, 36:].mean() > similar[36:, 30:36].mean() + 0.1
