"""One-class machines, next to scikit-learn's own kernels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.svm import OneClassSVM

from atd_dask.baselines import one_class
from atd_dask.baselines.features import divide_by_length


@pytest.mark.parametrize("gamma", [None, 10.0])
def test_machines_find_what_is_odd(documents, gamma):
    train, test = csr_matrix(documents[:30]), csr_matrix(documents[30:])
    products = one_class.Products.of(train, test)
    scores = one_class.score_documents(products, nu=0.1, gamma=gamma)
    assert set(np.argsort(-scores)[:2]) == {10, 11}
    assert (scores[10:] > 0).all()
    kernel = {"kernel": "linear"} if gamma is None else {"kernel": "rbf", "gamma": gamma}
    machine = OneClassSVM(nu=0.1, tol=1e-4, **kernel).fit(divide_by_length(train))
    expected = -machine.decision_function(divide_by_length(test))
    assert scores == pytest.approx(expected, abs=1e-4)
