from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings

from atd_dask.kernels.alternative import SMOOTHING, NullContext, train_alternative
from atd_dask.kernels.bootstrap import Pool
from atd_dask.kernels.cluster_growth import Grower, Growth, MembershipRule, choose_seeds
from atd_dask.kernels.fitters import AuthorsFitter
from atd_dask.kernels.fitting import fit_block
from atd_dask.kernels.model import Block, Proportions
from atd_dask.kernels.next_document import Batch
from atd_dask.kernels.word_switches import make_table
from atd_dask.text.options import Source
from atd_dask.text.readers import counts as read_counts
from tests import naive
from tests.kernels.strategies import cases, make_block
from tests.shared import shared


@given(cases())
@settings(max_examples=25)
def test_bic_and_likelihood_are_the_equation(case):
    counts, (table, _) = case
    topic = train_alternative(NullContext.of(table), make_block(counts))
    beta = np.vstack((table.dense(), topic.probabilities))
    np.testing.assert_allclose(topic.probabilities.sum(), 1, rtol=1e-6)
    np.testing.assert_allclose(topic.proportions.sum(axis=1), 1)
    total = naive.entropy(topic.specific.mean()) * len(topic.specific) * math.log(2)
    total += 0.5 * topic.specific.sum() * math.log(counts.sum() / (2 * math.pi))
    possible = []
    for document, theta, likelihood in zip(
        counts, topic.proportions, topic.log_likelihoods, strict=True
    ):
        assert likelihood == pytest.approx(naive.document_log_likelihood(document, theta, beta))
        # The new topic is on, and another may be, with proportion 0.
        least = len({*np.flatnonzero(theta), table.n_topics})
        possible.append(
            [
                naive.document_objective(document, theta, beta, n_active)
                for n_active in range(least, len(beta) + 1)
            ]
        )
    totals = [total + sum(values) for values in itertools.product(*possible)]
    assert min(abs(value - topic.bic) for value in totals) < 1e-6


@given(cases())
@settings(max_examples=25)
def test_a_topic_is_smoothed_by_what_it_gave_and_by_the_shared_model(case):
    counts, (table, _) = case
    context = NullContext.of(table)
    topic = train_alternative(context, make_block(counts))
    beta = np.vstack((table.dense(), topic.probabilities))
    given_by_topic = naive.expected_counts(counts, topic.proportions, beta)[-1]
    np.testing.assert_allclose(topic.expected, given_by_topic, atol=1e-9)
    smoothed = topic.smoothed(context)
    expected = naive.smoothed_topic(given_by_topic, table.shared, SMOOTHING)
    np.testing.assert_allclose(smoothed.probabilities, expected)
    others = ~smoothed.specific
    np.testing.assert_array_equal(
        smoothed.probabilities[others], table.shared[others] * smoothed.rest
    )


@given(cases())
@settings(max_examples=25)
def test_the_next_document_is_that_of_full_scoring(case):
    counts, (table, _) = case
    block = make_block(counts)
    batch = Batch(NullContext.of(table), block, fit_block(block, table))
    outside = np.ones(len(counts), bool)
    documents = [0]
    outside[0] = False
    while outside.any():
        topic = batch.train(np.array(documents))
        lazy = batch.next_document(topic, outside)
        full = batch.next_document(topic, outside, every=True)
        assert lazy == full
        documents.append(lazy.document)
        outside[lazy.document] = False
    assert batch.next_document(topic, outside) is None


def load(corpus):
    path = shared(f"corpora/{corpus}/test.ldac.gz")
    (batch,) = read_counts(Source(format="ldac", path=str(path))).batches()
    block = Block(batch.indptr, batch.terms, batch.counts)
    model = np.load(shared(f"reference/{corpus}_null_model.npz"))
    table = make_table(model["shared"], model["word_switch_u"] > 0, model["beta_topics"])
    record = json.loads(shared(f"reference/{corpus}_clusters.json").read_text())
    return block, table, record["clusters"]


@pytest.mark.parametrize(
    ("corpus", "steps", "most"),
    [
        ("reuters", 1, 40),
        pytest.param("reuters", 1, 97, marks=pytest.mark.long),
        ("synthetic", 2, 32),
    ],
)
def test_the_authors_clusters_grow_in_their_order(corpus, steps, most):
    """Without a stop: where their growth ended depended on random draws."""
    block, table, clusters = load(corpus)
    fitter = AuthorsFitter(NullContext.of(table))
    batch = fitter.batch(block, fitter.fit(block))
    available = np.ones(len(block), bool)
    pool = Pool.of(fitter, block.take(np.zeros(0, int)), Proportions.empty(0))
    endless = MembershipRule(min_size=len(block))
    for cluster in clusters[:steps]:
        if cluster["document_dropped_by_error"] is not None:
            available[cluster["document_dropped_by_error"]] = False
        documents = cluster["documents"][:most]
        (seed,) = choose_seeds(batch, available, 1)
        grower = Grower(batch, available, endless, fitter, pool, ("tests",), len(documents))
        grown = grower.grow(Growth(seed))
        assert list(grown.documents) == documents
        scores = [step.score for step in grown.steps]
        recorded = cluster["growth"]["score"][: len(scores)]
        np.testing.assert_allclose(scores, recorded, rtol=1e-4)
        available[cluster["documents"]] = False


def test_the_authors_salient_words_come_out():
    block, table, (cluster, *_) = load("reuters")
    mine = block.take(np.array(cluster["documents"]))
    fitter = AuthorsFitter(NullContext.of(table))
    topic = fitter.train(mine)
    score = topic.log_likelihoods.sum() - fitter.fit(mine).log_likelihoods.sum()
    assert score == pytest.approx(cluster["score"], rel=1e-4)
    assert topic.specific.sum() == 193
    assert np.isin(np.flatnonzero(topic.specific), mine.terms).sum() == 166
