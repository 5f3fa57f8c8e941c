"""Documents join a known cluster by its new words, not by those of a normal topic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from atd_dask.sweeps.known_clusters import find_same, has_words
from atd_dask.sweeps.state import KnownCluster
from tests.kernels.strategies import make_block


@pytest.mark.parametrize(
    ("new", "joining"),
    [
        ([0, 1], [True, False, False, False]),
        ([0, 1, 2], [True, False, True, False]),
        ([0], [True, True, False, False]),
        ([], [False, False, False, False]),
    ],
)
def test_a_document_must_have_two_of_the_new_words(new, joining):
    counts = np.array([[2, 1, 0, 0], [9, 0, 0, 1], [0, 1, 1, 0], [0, 0, 0, 5]])
    words = np.isin(np.arange(4), new)
    assert has_words(make_block(counts), words).tolist() == joining


@pytest.mark.parametrize(
    ("words", "same"),
    [
        ("a b c d e x y", True),
        ("a b c d e", True),
        ("a b c d e u v w x y z", False),  # less than half
        ("a", False),  # a normal topic took up one of its words
        ("a b c", False),
    ],
)
def test_a_cluster_about_the_same_words_is_the_known_one(words, same):
    known = KnownCluster(number=1, words=tuple("abcdefghijklmnopqrst"), written=(), p_value=0.001)
    assert find_same(words.split(), {0: known}) == (0 if same else None)


def test_a_known_cluster_with_few_words_needs_all_of_them():
    known = KnownCluster(number=1, words=("a", "b"), written=(), p_value=0.001)
    assert find_same(["b", "a"], {0: known}) == 0
    assert find_same(["a", "c"], {0: known}) is None
    assert find_same(list("abcdefghijklmnopqrst"), {0: known}) is None
    assert find_same(["c"], {0: replace(known, words=())}) is None
