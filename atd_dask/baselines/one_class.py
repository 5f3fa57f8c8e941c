"""One-class support vector machines on counts of words over the length of the document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from atd_dask.baselines.features import divide_by_length
from atd_dask.kernels.model import Floats

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

TOLERANCE = 1e-4
CACHE_MEGABYTES = 500


def score_documents(train: csr_matrix, test: csr_matrix, nu: float, gamma: float | None) -> Floats:
    """How far each test document is outside; above 0 it is called an anomaly. The kernel is linear,
    or with `gamma` the radial one."""
    from sklearn.svm import OneClassSVM

    kernel = {"kernel": "linear"} if gamma is None else {"kernel": "rbf", "gamma": gamma}
    machine = OneClassSVM(nu=nu, tol=TOLERANCE, cache_size=CACHE_MEGABYTES, **kernel)
    machine.fit(divide_by_length(train))
    scores: Floats = -machine.decision_function(divide_by_length(test)).ravel()
    return scores
