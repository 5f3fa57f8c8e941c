from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atd_dask.kernels.fitting import FREE, assign_block, fit_block
from atd_dask.kernels.word_switches import SharedModel, estimate_words
from atd_dask.kernels.workspaces import MOST_KEPT
from tests import naive
from tests.kernels.strategies import corpora, make_block, make_expected, make_switches, models


@st.composite
def cases(draw):
    counts = draw(corpora())
    return counts, draw(models(counts.shape[1]))


@given(cases())
def test_assignment_is_the_likeliest_topic(case):
    counts, (table, _) = case
    beta = table.dense()
    assigned = assign_block(make_block(counts), table)
    for document, topic in zip(counts, assigned.topics, strict=True):
        values = [
            naive.document_log_likelihood(document, np.eye(len(beta))[j], beta)
            for j in range(len(beta))
        ]
        assert values[topic] == pytest.approx(max(values))


@given(cases())
def test_fit_has_the_likelihood_and_cost_of_the_equation(case):
    counts, (table, _) = case
    fit = fit_block(make_block(counts), table)
    theta = fit.proportions.dense(table.n_topics)
    np.testing.assert_allclose(theta.sum(axis=1), 1)
    cost = 0.0
    for d, document in enumerate(counts):
        active = int(fit.proportions.indptr[d + 1] - fit.proportions.indptr[d])
        cost += naive.document_cost(document, active, table.n_topics)
        assert fit.log_likelihoods[d] == pytest.approx(
            naive.document_log_likelihood(document, theta[d], table.dense()), rel=1e-10
        )
    assert fit.costs.sum() == pytest.approx(cost)


@given(cases())
def test_no_single_switch_of_a_fitted_document_would_lower_the_objective(case):
    counts, (table, _) = case
    check_single_switches(counts[:2], table)


def check_single_switches(counts, table):
    beta = table.dense()
    fit = fit_block(make_block(counts), table)
    for d, document in enumerate(counts):
        reached = tuple(
            fit.proportions.topics[fit.proportions.indptr[d] : fit.proportions.indptr[d + 1]]
        )
        values = naive.objectives_of_supports(document, beta, steps=300)
        cost = naive.document_cost(document, len(reached), table.n_topics)
        mine = cost - fit.log_likelihoods[d]
        for other, value in values.items():
            if len(set(other) ^ set(reached)) == 1:
                assert mine <= value + 1e-4


@given(st.integers(0, 2**32 - 1))
def test_topics_with_words_that_are_next_to_impossible_elsewhere_are_not_missed(seed):
    rng = np.random.default_rng(seed)
    x = rng.gamma(0.4, 30.0, (4, 8))
    x[rng.random(x.shape) < 0.4] = 0.0
    x[:, 0] += 1
    shared = SharedModel.from_counts(rng.integers(1, 40, 8))
    table = estimate_words(make_expected(x), shared, make_switches(np.ones_like(x, bool)))
    counts = rng.poisson(rng.gamma(0.5, 4.0, (2, 8)))
    counts[:, 0] += 1
    check_single_switches(counts, table)


@given(cases())
def test_free_topics_give_the_best_mixture_of_all(case):
    counts, (table, _) = case
    beta = table.dense()
    fit = fit_block(make_block(counts[:2]), table, slope=np.full(table.n_topics, FREE))
    for d, document in enumerate(counts[:2]):
        best = naive.best_proportions(document, beta, range(table.n_topics), steps=300)
        expected = naive.document_log_likelihood(document, best, beta)
        assert fit.log_likelihoods[d] >= expected - 1e-4
    assert not fit.costs.any()


@given(cases(), st.integers(0, 2**32 - 1))
def test_an_anchor_keeps_its_topic(case, seed):
    counts, (table, _) = case
    block = make_block(counts)
    start = assign_block(block, table)
    anchors = np.full(table.n_topics, -1)
    anchors[start.topics[0]] = 0
    slope = np.random.default_rng(seed).random(table.n_topics) * 5
    fit = fit_block(block, table, start, slope, anchors)
    assert start.topics[0] in fit.proportions.topics[: fit.proportions.indptr[1]]


def test_a_document_without_known_words_has_no_topic():
    shared = SharedModel.from_counts(np.array([3, 3, 3, 0]))
    x = np.array([[5.0, 1.0, 1.0, 0.0], [1.0, 5.0, 1.0, 0.0]])
    table = estimate_words(make_expected(x), shared, make_switches(x > 0))
    counts = np.array([[0, 0, 0, 0], [1, 2, 0, 1], [0, 0, 0, 4]])
    fit = fit_block(make_block(counts), table)
    assert np.diff(fit.proportions.indptr)[[0, 2]].tolist() == [0, 0]
    assert fit.lengths.tolist() == [0, 3, 0]
    assert fit.log_likelihoods[[0, 2]].tolist() == [0, 0]


def test_documents_are_fitted_alike_together_and_alone():
    """Together, they keep the probabilities of words that came early, as many as there is room
    for."""
    rng = np.random.default_rng(4)
    n_words = 1_500
    n_topics = MOST_KEPT // 1_000
    shared = SharedModel.from_counts(rng.integers(1, 20, n_words))
    x = rng.gamma(0.5, 10.0, (n_topics, n_words)) + 1e-3
    u = rng.random(x.shape) < 0.01
    u[:, :2] = True
    table = estimate_words(make_expected(x), shared, make_switches(u))
    block = make_block(rng.poisson(0.3, (12, n_words)))
    together = fit_block(block, table)
    alone = [fit_block(block.take(np.array([d])), table) for d in range(len(block))]
    assert together.log_likelihoods.tolist() == [fit.log_likelihoods[0] for fit in alone]
    joined = np.concatenate([fit.proportions.theta for fit in alone])
    assert together.proportions.theta.tolist() == joined.tolist()
