"""One-class support vector machines on relative word frequencies.

All settings share the same inner products, which take far longer than fitting a machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from atd_dask.baselines.features import divide_by_length
from atd_dask.kernels.model import Floats

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

TOLERANCE = 1e-4
CACHE_MEGABYTES = 500


@dataclass(frozen=True)
class Products:
    """Inner products of documents; memory is quadratic in the training documents."""

    train: Floats  # train × train
    test: Floats  # test × train
    test_squares: Floats  # test: squared norms

    @classmethod
    def of(cls, train: csr_matrix, test: csr_matrix) -> Products:
        known, new = divide_by_length(train), divide_by_length(test)
        squares = np.asarray(new.multiply(new).sum(axis=1)).ravel()
        return cls((known @ known.T).toarray(), (new @ known.T).toarray(), squares)


def score_documents(products: Products, nu: float, gamma: float | None) -> Floats:
    """Return how far outside each test document is; above 0 it counts as an anomaly. The kernel is
    linear, or RBF with `gamma`."""
    from sklearn.svm import OneClassSVM

    own, other = products.train, products.test
    if gamma is not None:
        squares = np.diagonal(products.train)
        own = _rbf_kernel(own, squares, squares, gamma)
        other = _rbf_kernel(other, products.test_squares, squares, gamma)
    machine = OneClassSVM(
        kernel="precomputed", nu=nu, tol=TOLERANCE, cache_size=CACHE_MEGABYTES
    ).fit(own)
    scores: Floats = -machine.decision_function(other).ravel()
    return scores


def _rbf_kernel(products: Floats, squares: Floats, other_squares: Floats, gamma: float) -> Floats:
    """Compute exp(−γ‖x − y‖²) from inner products."""
    values = 2.0 * products
    values -= squares[:, None]
    values -= other_squares
    values *= gamma
    return np.exp(values, out=values)
