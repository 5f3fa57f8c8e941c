"""Vectors for the methods that judge each document by itself."""

from __future__ import annotations

from scipy.sparse import csr_matrix

from atd_dask.baselines.features import divide_by_length


def test_shares_of_words():
    shares = divide_by_length(csr_matrix([[1, 3], [0, 0]])).toarray()
    assert shares.tolist() == [[0.25, 0.75], [0.0, 0.0]]
