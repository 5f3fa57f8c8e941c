"""How unlikely a document is under the null model."""

from __future__ import annotations

import numpy as np
import pytest

from atd_dask.baselines import likelihood
from atd_dask.kernels.word_switches import make_table
from tests.kernels.strategies import make_block


def test_likelihood_is_for_the_length_of_the_document():
    shared = np.array([0.5, 0.25, 0.25, 0.0])
    specific = np.zeros((1, 4), bool)
    specific[0, :2] = True
    table = make_table(shared, specific, np.array([[0.7, 0.05, 0.0, 0.0]]))
    counts = [[2, 0, 0, 0], [4, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 3]]
    scores = likelihood.score_documents(make_block(counts), table)
    assert scores[0] == pytest.approx(-np.log(0.7))
    assert scores[1] == pytest.approx(scores[0])
    assert scores[2] == pytest.approx(-np.log(0.05 * 0.25) / 2)
    assert scores[3] == 0
