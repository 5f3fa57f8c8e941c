from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atd_dask.kernels import authors
from atd_dask.kernels.alternative import NullContext, train_alternative
from atd_dask.kernels.fitting import fit_block
from atd_dask.kernels.growth import Batch
from atd_dask.kernels.model import Block
from atd_dask.kernels.wording import make_table
from atd_dask.text.options import Source
from atd_dask.text.readers import counts as read_counts
from tests import naive
from tests.kernels.strategies import corpora, make_block, models
from tests.shared import shared


@st.composite
def cases(draw):
    counts = draw(corpora(min_docs=2))
    counts[:, 0] += 7
    return counts, draw(models(counts.shape[1], max_topics=3))


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
    ("corpus", "sizes"), [("reuters", (1, 2, 12, 40, 85, 96)), ("synthetic", (1, 9, 25))]
)
def test_the_authors_cluster_grows_in_their_order(corpus, sizes):
    block, table, (cluster, *_) = load(corpus)
    context = NullContext.of(table)
    null = authors.fit_block(block, table)
    documents = cluster["documents"]
    assert int(np.argmin(null.log_likelihoods / null.lengths)) == documents[0]
    for size in sizes:
        joined = np.array(documents[:size])
        topic = authors.train_topic(context, *block.take(joined).arrays)
        score = topic[2].sum() - null.log_likelihoods[joined].sum()
        assert score == pytest.approx(cluster["growth"]["score"][size - 1], rel=1e-4)
        outside = np.ones(len(block), bool)
        outside[joined] = False
        following, *_ = authors.next_document(
            context, topic[0], *block.arrays, null.log_likelihoods, outside
        )
        assert following == documents[size]


def test_the_authors_salient_words_come_out():
    block, table, (cluster, *_) = load("reuters")
    documents = np.array(cluster["documents"])
    null = authors.fit_block(block, table)
    taken = block.take(documents)
    _, on, likelihoods, *_ = authors.train_topic(NullContext.of(table), *taken.arrays)
    score = likelihoods.sum() - null.log_likelihoods[documents].sum()
    assert score == pytest.approx(cluster["score"], rel=1e-4)
    assert on.sum() == 193
    assert np.isin(np.flatnonzero(on), taken.terms).sum() == 166
