"""The authors' null models and the fits that they recorded; see the README of the references."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atd_dask.kernels import authors
from atd_dask.kernels.word_switches import make_table
from tests import naive
from tests.kernels.cluster_search import read_block
from tests.kernels.strategies import corpora, make_block, models
from tests.shared import shared


def read_table(name):
    """The null model that the authors' detection used."""
    with np.load(shared(f"reference/{name}_null_model.npz")) as model:
        return make_table(model["shared"], model["word_switch_u"] > 0, model["beta_topics"])


@pytest.mark.parametrize(("name", "n_docs"), [("reuters", 700), ("synthetic", 2060)])
def test_all_test_documents_are_fitted_as_recorded(name, n_docs):
    block, _ = read_block(name, "test")
    table = read_table(name)
    fit = authors.fit_block(block, table)
    with np.load(shared(f"reference/{name}_null_inference.npz")) as recorded:
        theta, likelihood = recorded["test_theta0"], recorded["test_normalised_loglik"]
    assert len(block) == n_docs
    mine = fit.proportions.dense(table.n_topics)
    np.testing.assert_array_equal(mine > 0, theta > 0)
    np.testing.assert_allclose(mine, theta, atol=1e-4)
    np.testing.assert_allclose(fit.log_likelihoods / fit.lengths, likelihood, rtol=0, atol=1e-5)


def test_the_recorded_likelihood_of_training_comes_out():
    """The model as it is read here is the one that they trained."""
    block, n_words = read_block("reuters")
    table = read_table("reuters")
    with np.load(shared("reference/reuters_null_model.npz")) as model:
        theta, recorded = model["train_theta"], float(model["train_loglik"])
    assert n_words == table.n_words
    documents = np.repeat(np.arange(len(block)), np.diff(block.indptr))
    p = np.einsum("ej,je->e", theta[documents], table.dense()[:, block.terms])
    assert block.counts @ np.log(p) == pytest.approx(recorded, abs=0.01)


@st.composite
def cases(draw):
    counts = draw(corpora())
    return counts, draw(models(counts.shape[1]))


@given(cases())
@settings(max_examples=30)
def test_fit_has_the_likelihood_and_cost_of_the_equation(case):
    counts, (table, _) = case
    fit = authors.fit_block(make_block(counts), table)
    theta = fit.proportions.dense(table.n_topics)
    np.testing.assert_allclose(theta.sum(axis=1), 1)
    assert fit.lengths.tolist() == counts.sum(axis=1).tolist()
    for d, document in enumerate(counts):
        n_active = int((theta[d] > 0).sum())
        cost = naive.document_cost(document, n_active, table.n_topics)
        assert fit.costs[d] == pytest.approx(cost, abs=1e-12)
        assert fit.log_likelihoods[d] == pytest.approx(
            naive.document_log_likelihood(document, theta[d], table.dense()), rel=1e-10
        )


@given(cases())
@settings(max_examples=30)
def test_no_switch_makes_a_document_worse_than_its_best_topic(case):
    counts, (table, _) = case
    fit = authors.fit_block(make_block(counts), table)
    alone = np.eye(table.n_topics)
    for d, document in enumerate(counts):
        best = min(naive.document_objective(document, one, table.dense()) for one in alone)
        assert fit.costs[d] - fit.log_likelihoods[d] <= best + 1e-9


def test_a_document_without_known_words_has_no_topic():
    table = make_table(
        np.array([0.5, 0.5, 0.0]), np.array([[True, True, False]] * 2), np.full((2, 3), 0.5)
    )
    fit = authors.fit_block(make_block([[0, 0, 4], [2, 1, 1], [0, 0, 0]]), table)
    assert np.diff(fit.proportions.indptr)[[0, 2]].tolist() == [0, 0]
    assert fit.lengths.tolist() == [0, 3, 0]
    assert fit.log_likelihoods[[0, 2]].tolist() == [0, 0]
    assert fit.costs[[0, 2]].tolist() == [0, 0]


def test_a_probability_of_zero_becomes_the_authors_floor():
    table = make_table(np.array([0.5, 0.5]), np.array([[True, True]]), np.array([[1.0, 0.0]]))
    np.testing.assert_array_equal(table.dense(), [[1.0, 1e-100]])
