from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.special import digamma
from scipy.stats import dirichlet

from atd_dask.baselines import m4
from tests import naive_baselines


def make_documents(seed=3):
    """Two genres: documents of one topic, and documents of two."""
    rng = np.random.default_rng(seed)
    beta = np.kron(np.eye(3), np.full(4, 0.25)) * 0.9 + 0.1 / 12
    groups = np.repeat(np.arange(3), 8)
    counts = np.zeros((24, 12), np.int64)
    for d, group in enumerate(groups):
        theta = np.eye(3)[group] if group < 2 else np.array([0.0, 0.5, 0.5])
        counts[d] = rng.multinomial(40, theta @ beta)
    return counts, groups


def test_the_bound_never_falls(monkeypatch):
    monkeypatch.setattr(m4, "TOLERANCE", 0.0)
    counts, groups = make_documents()
    documents = csr_matrix(counts)
    model, posterior = m4.start(documents, groups, 3, 2, seed=1)
    bounds = []
    for _ in range(8):
        posterior = m4.infer(model, documents, groups, posterior)
        for now in (model, m4.update(model, posterior, groups)):
            bounds.append(
                naive_baselines.mean_field_bound(
                    counts, groups, posterior.gamma, posterior.genres, now.beta, now.alpha, now.pi
                )
            )
        model = now
    # The least count of a word, for which the bound does not ask, is worth less than this.
    assert all(after > before - 1e-3 for before, after in pairwise(bounds))
    assert bounds[-1] > bounds[0] + 10


def test_the_same_seed_gives_the_same_scores():
    counts, groups = make_documents()
    documents = csr_matrix(counts)

    def score(seed):
        model = m4.learn(documents, groups, 3, 2, seed)
        return m4.score_documents(model, documents, groups)

    assert (score(1) == score(1)).all()
    assert (score(1) != score(2)).any()


def test_a_mixed_document_has_the_larger_entropy():
    counts, groups = make_documents()
    model = m4.learn(csr_matrix(counts[:16]), groups[:16], 2, 2, seed=1)
    mixed = np.vstack([counts[:2], counts[0] + counts[8]])
    mixed[2] //= 2
    scores = m4.score_documents(model, csr_matrix(mixed), np.array([0, 0, 0]))
    assert scores.argmax() == 2


def test_a_group_without_documents_and_a_document_without_words():
    counts, groups = make_documents()
    counts[0] = 0
    groups = np.where(groups == 1, 0, groups)
    model = m4.learn(csr_matrix(counts), groups, 3, 2, seed=1)
    assert np.isfinite(m4.score_documents(model, csr_matrix(counts), groups)).all()


def test_entropy_is_that_of_the_dirichlet():
    gamma = np.random.default_rng(1).gamma(1.0, 3.0, (5, 4)) + 0.05
    np.testing.assert_allclose(
        m4.measure_entropy(gamma), [dirichlet(row).entropy() for row in gamma], rtol=1e-10
    )


def test_the_dirichlet_of_given_means_is_found(monkeypatch):
    monkeypatch.setattr(m4, "ALPHA_STEPS", 3000)
    alpha = np.array([[0.2, 1.0, 3.0], [5.0, 5.0, 0.01]])
    means = digamma(alpha) - digamma(alpha.sum(axis=1, keepdims=True))
    found = m4.fit_dirichlet(np.ones_like(alpha), means)
    assert found == pytest.approx(alpha, rel=1e-3)
