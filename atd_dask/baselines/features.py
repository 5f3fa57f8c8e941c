"""Documents as the vectors that the methods of single points see."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


def divide_by_length(counts: csr_matrix) -> csr_matrix:
    """Counts of words over the length of the document; a document without words stays without."""
    shares = counts.astype(np.float64)
    lengths = np.maximum(np.asarray(shares.sum(axis=1)).ravel(), 1.0)
    shares.data /= np.repeat(lengths, np.diff(shares.indptr))
    return shares
