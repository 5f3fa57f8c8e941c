"""Documents join a known cluster by its new words, not by those of a normal topic."""

from __future__ import annotations

import numpy as np
import pytest

from atd_dask.sweeps.known_clusters import has_words
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
