"""Document vectors for the methods that judge each document by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


def divide_by_length(counts: csr_matrix) -> csr_matrix:
    """Divide counts by the length of the document; documents without words stay empty."""
    shares = counts.astype(np.float64)
    lengths = np.maximum(np.asarray(shares.sum(axis=1)).ravel(), 1.0)
    shares.data /= np.repeat(lengths, np.diff(shares.indptr))
    return shares
