"""Who belongs to a cluster, once its topic is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atd_dask.kernels.alternative import NullContext
from atd_dask.kernels.bootstrap import Pool
from atd_dask.kernels.cluster_growth import (
    BicRule,
    Grower,
    Growth,
    MembershipRule,
    SettleRule,
    Step,
)
from atd_dask.kernels.fitters import Fitter
from atd_dask.kernels.fitting import fit_block
from atd_dask.kernels.next_document import Batch
from tests import naive
from tests.kernels.strategies import corpora, make_block, models


@st.composite
def cases(draw):
    counts = draw(corpora(min_docs=3))
    counts[:, 0] += 3
    return counts, draw(models(counts.shape[1], max_topics=2))


def make_batch(counts, table):
    block = make_block(counts)
    return Batch(NullContext.of(table), block, fit_block(block, table))


@given(cases())
@settings(max_examples=20)
def test_the_gain_of_a_document_is_that_of_the_equation(case):
    counts, (table, _) = case
    batch = make_batch(counts, table)
    topic = batch.train(np.array([0, 1]))
    everyone = np.ones(len(counts), bool)
    gains = batch.gains_above(topic, everyone, -np.inf)
    beta = np.vstack((table.dense(), topic.probabilities))
    for d, document in enumerate(counts):
        null = batch.fit.costs[d] - batch.fit.log_likelihoods[d]
        supports = naive.objectives_of_supports(document, beta, steps=800)
        with_new = [value for active, value in supports.items() if table.n_topics in active]
        assert min(abs(null - gains[d] - value) for value in with_new) < 1e-3
        assert null - gains[d] <= supports[(table.n_topics,)] + 1e-6


@given(cases(), st.floats(-3, 3))
@settings(max_examples=20)
def test_what_is_skipped_could_not_have_been_above(case, least):
    counts, (table, _) = case
    batch = make_batch(counts, table)
    topic = batch.train(np.array([0]))
    available = np.ones(len(counts), bool)
    available[-1] = False
    every = batch.fork().gains_above(topic, available, -np.inf)
    some = batch.gains_above(topic, available, least)
    assert every[-1] == -np.inf
    np.testing.assert_array_equal(some, np.where(every > least, every, -np.inf))


def test_the_odds_of_a_level():
    rule = SettleRule(0.99)
    assert rule.least_gain(50, 100) == pytest.approx(math.log(99))
    assert rule.least_gain(10, 100) == pytest.approx(math.log(99 * 9))
    assert math.isfinite(rule.least_gain(100, 100))


@given(cases())
@settings(max_examples=20)
def test_no_word_of_a_topic_counts_less_than_half_a_token(case):
    counts, (table, _) = case
    batch = make_batch(counts, table)
    topic = batch.train(np.array([0, 1]))
    lengths = batch.fit.lengths[:2]
    met = topic.with_half_tokens(lengths)
    own = topic.specific
    np.testing.assert_array_equal(met.probabilities[~own], topic.probabilities[~own])
    assert met.probabilities[own].sum() == pytest.approx(topic.probabilities[own].sum())
    tokens = sum(topic.proportions[d, -1] * lengths[d] for d in range(2))
    raised = [max(p, 0.5 / max(tokens, 1.0)) for p in topic.probabilities[own]]
    scale = sum(topic.probabilities[own]) / sum(raised) if raised else 1.0
    np.testing.assert_allclose(met.probabilities[own], [scale * p for p in raised])


@pytest.fixture(scope="module")
def planted():
    """A batch in which every fourth document has a topic of its own on half of its words."""
    rng = np.random.default_rng(4)
    topics = 0.8 * rng.dirichlet(np.full(120, 0.05), 4) + 0.2 / 120
    train = np.stack([rng.multinomial(60, topics[d % 3]) for d in range(300)])
    mixtures = [topics[d % 3] if d % 4 else (topics[d % 3] + topics[3]) / 2 for d in range(80)]
    batch = np.stack([rng.multinomial(60, mixture) for mixture in mixtures])
    from atd_dask.distribution.training import Training, choose_best, train_restarts
    from atd_dask.kernels.blocks import MemoryCorpus
    from atd_dask.kernels.training import Convergence, OrderRange

    corpus = MemoryCorpus(make_block(train), 120)
    table = choose_best(train_restarts(Training(corpus, OrderRange(3, 3), Convergence(), 1), 1))
    return make_batch(batch, table)


def make_grower(batch, max_size=None):
    fitter = Fitter(batch.context)
    pool = Pool.of(fitter, batch.block, batch.fit.proportions)
    available = np.ones(len(batch), bool)
    return Grower(batch, available, BicRule(), fitter, pool, ("tests",), max_size)


def test_a_grown_cluster_is_no_larger_than_allowed(planted):
    grown = make_grower(planted, max_size=7).grow(Growth(0))
    assert grown.ended
    assert len(grown.documents) == 7


def test_tests_of_membership_are_counted():
    steps = tuple(
        Step(document, share, 0.0, 0.0, failed)
        for document, (share, failed) in enumerate(
            [(0.1, False), (0.9, False), (0.1, False), (0.2, False), (0.1, True)]
        )
    )
    growth = Growth(9, steps)
    rule = MembershipRule(min_size=3, test_below=0.2)
    grower = Grower(None, np.ones(10, bool), rule, None, None, ())
    assert grower.count_tests(growth) == {"tested": 2, "failed": 1}
    by_gain = Grower(None, np.ones(10, bool), BicRule(), None, None, ())
    assert by_gain.count_tests(growth)["tested"] == 0
