"""Which words are most telling of a topic."""

from __future__ import annotations

import numpy as np

from atd_dask.kernels.word_ranking import measure_telling, rank_words
from tests import naive

SHARED = np.array([0.3, 0.001, 0.1, 0.2, 0.1, 0.2, 0.099, 0.0])
OWN = np.array([0.35, 0.2, 0.1, 0.01, 0.0, 0.1, 0.24, 0.0])


def test_the_kernel_is_the_loop():
    assert measure_telling(OWN, SHARED).tolist() == naive.measure_telling(OWN, SHARED)
    assert measure_telling(np.array([0.5]), np.array([0.0])).tolist() == [0.5]


def test_words_of_the_topic_alone_come_before_frequent_ones_of_all():
    ranked = rank_words(np.array([0, 1, 3, 4, 5, 6]), OWN, SHARED)
    assert ranked.tolist() == [1, 6, 0, 3, 4, 5]


def test_of_equals_the_first_word_comes_first():
    halves = np.full(4, 0.25)
    assert rank_words(np.arange(4), halves, halves / 2).tolist() == [0, 1, 2, 3]
    assert rank_words(np.zeros(0, int), halves, halves).tolist() == []
