"""Topic proportions and groups by scikit-learn's LDA."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from atd_dask.baselines.lda import choose_groups, group_documents, learn_proportions


def test_groups_are_the_subjects(documents):
    groups = group_documents(csr_matrix(documents[:40]), 2, seed=1)
    assert len({*groups[::2]}) == len({*groups[1::2]}) == 1
    assert groups[0] != groups[1]


def test_topics_are_always_the_same(documents):
    train, test = csr_matrix(documents[:30]), csr_matrix(documents[30:])
    first, again = (learn_proportions(train, test, 3, seed=5) for _ in range(2))
    assert (first[0] == again[0]).all()
    assert (first[1] == again[1]).all()
    assert first[1].sum(axis=1) == pytest.approx(1)
    assert choose_groups(np.array([[0.2, 0.8], [0.5, 0.5]])).tolist() == [1, 0]
