from __future__ import annotations

import numpy as np
import pytest
from scipy.special import digamma as true_digamma
from scipy.special import gammaln

from atd_dask.kernels.genres import infer_genres, infer_topics, sum_log_proportions
from tests import naive_baselines
from tests.kernels.strategies import make_block


def draw(seed, n_docs=6, n_words=7, n_topics=3, n_genres=2, n_groups=3):
    rng = np.random.default_rng(seed)
    return (
        rng.integers(0, 5, (n_docs, n_words)),
        rng.dirichlet(np.ones(n_words), n_topics).T.copy(),
        rng.gamma(1.0, 1.0, (n_docs, n_topics)) + 0.01,
        rng.gamma(2.0, 2.0, (n_docs, n_topics)) + 0.01,
        rng.integers(0, n_groups, n_docs),
        rng.gamma(1.0, 1.0, (n_genres, n_topics)) + 0.01,
        rng.dirichlet(np.ones(n_genres)),
    )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("steps", [1, 4])
def test_topics_equal_the_loops(seed, steps):
    counts, beta, prior, start, *_ = draw(seed)
    expected = [
        naive_baselines.mean_field_topics(*each, steps)
        for each in zip(counts, [beta] * 6, prior, start, strict=True)
    ]
    gamma, mass = start.copy(), np.zeros_like(beta)
    infer_topics(make_block(counts).arrays, beta, prior, gamma, mass, steps, 0.0)
    np.testing.assert_allclose(gamma, [one for one, _ in expected], rtol=1e-10)
    np.testing.assert_allclose(mass, sum(one for _, one in expected), rtol=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_genres_equal_the_loops(seed):
    _, _, _, gamma, groups, alpha, pi = draw(seed)
    sums = sum_log_proportions(gamma, groups, 3)
    found = infer_genres(sums, np.bincount(groups, minlength=3), alpha, pi)
    expected = naive_baselines.mean_field_genres(gamma, groups, 3, alpha, pi)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_the_logarithms_of_proportions_are_digammas():
    """From tiny parameters to large ones."""
    gamma = np.array([[1e-6, 0.3], [5.9, 6.1], [1e3, 1e7]])
    expected = true_digamma(gamma) - true_digamma(gamma.sum(axis=1, keepdims=True))
    found = sum_log_proportions(gamma, np.arange(3), 3)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_steps_end_where_nothing_changes():
    counts, beta, prior, start, *_ = draw(1)
    results = []
    for steps in (500, 5000):
        gamma = start.copy()
        rows = make_block(counts).arrays
        infer_topics(rows, beta, prior, gamma, np.zeros_like(beta), steps, 1e-12)
        results.append(gamma)
    np.testing.assert_allclose(results[0], results[1], rtol=1e-8)
    assert gammaln(results[0]).sum() != gammaln(start).sum()
