from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from atd_dask.distribution.engine.runner import Runner
from atd_dask.distribution.newwords import admit_new_words
from atd_dask.kernels.blocks import MemoryCorpus
from atd_dask.kernels.newwords import (
    MOST_MASS,
    admit_words,
    count_occurrences,
    measure_new_mass,
)
from atd_dask.kernels.word_switches import make_table
from tests import naive
from tests.kernels.strategies import corpora, make_block, models


@given(corpora(min_docs=2))
@settings(max_examples=50)
def test_the_mass_is_what_documents_have_that_no_other_has(counts):
    mass = measure_new_mass(count_occurrences(make_block(counts), counts.shape[1]))
    assert mass == pytest.approx(min(naive.new_mass(counts), MOST_MASS))


@given(models(6, max_topics=3))
@settings(max_examples=50)
def test_topics_keep_their_probabilities_but_for_the_mass(model):
    table, _ = model
    occurring = np.ones(9, dtype=bool)
    admitted = admit_words(table, occurring, 0.25)
    before, after = table.dense(), admitted.dense()
    known = np.flatnonzero(table.shared > 0)
    new = np.setdiff1d(np.arange(9), known)
    np.testing.assert_allclose(after[:, known], 0.75 * before[:, known])
    np.testing.assert_allclose(after[:, new], 0.25 / len(new))
    np.testing.assert_allclose(admitted.log_ratio, table.log_ratio)


def test_a_batch_without_new_words_leaves_the_table_as_it_is():
    counts = np.array([[2, 1, 0], [1, 3, 1]])
    corpus = MemoryCorpus(make_block(counts), 3)
    table = make_table(np.full(3, 1 / 3), np.zeros((1, 3), bool), np.full((1, 3), 1 / 3))
    assert admit_new_words(Runner(), table, corpus, corpus) is table


def test_words_of_the_batch_alone_are_admitted():
    train = MemoryCorpus(make_block(np.array([[2, 1, 0], [1, 3, 0]])), 3)
    batch = MemoryCorpus(make_block(np.array([[1, 0, 0, 2, 0], [1, 0, 1, 1, 0]])), 5)
    shared = np.array([3 / 7, 4 / 7, 0.0])
    table = make_table(shared, np.zeros((1, 3), bool), np.tile(shared, (1, 1)))
    admitted = admit_new_words(Runner(), table, batch, train)
    assert admitted.shared[4] == 0.0  # no document has it
    assert admitted.shared[2] == admitted.shared[3] == pytest.approx(1 / 14)
    assert admitted.shared.sum() == pytest.approx(1)
