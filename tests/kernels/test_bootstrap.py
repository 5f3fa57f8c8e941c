"""Bootstrap documents and the tests that use them, compared with Algorithms 2 to 4 as loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atd_dask.kernels import alternative, philox
from atd_dask.kernels.alternative import NullContext, train_alternative
from atd_dask.kernels.bootstrap import ClusterBootstrap, MembershipTest, Pool
from atd_dask.kernels.fitters import Fitter
from atd_dask.kernels.fitting import fit_block
from tests import naive
from tests.kernels.compiled import callable_kernel
from tests.kernels.strategies import corpora, make_block, models

draw_block = callable_kernel(philox.draw_block)
KEY = philox.make_key("tests")


def draws(replicate, part):
    """All numbers of a stream, one after another."""
    out = np.zeros(4, np.uint64)
    number = 0
    while True:
        draw_block(KEY, np.int64(replicate), np.int64(part), np.int64(number), out)
        yield from out.tolist()
        number += 1


def skip_block(stream):
    """The first number of a stream, which chooses the donor; the rest of its block is not used."""
    first = next(stream)
    for _ in range(3):
        next(stream)
    return first


def dense(block, n_words):
    counts = np.zeros((len(block), n_words), int)
    rows = np.repeat(np.arange(len(block)), np.diff(block.indptr))
    counts[rows, block.terms] = block.counts
    return counts


@st.composite
def cases(draw):
    counts = draw(corpora(min_docs=4))
    counts[:, 0] += 3
    return counts, draw(models(counts.shape[1], max_topics=3))


def make_bootstrap(case, nearest=1, once=False):
    counts, (table, _) = case
    context = NullContext.of(table)
    block = make_block(counts)
    fit = fit_block(block, table)
    pool = Pool.of(Fitter(context), block, fit.proportions, nearest, once)
    theta = fit.proportions.dense(table.n_topics)
    return ClusterBootstrap.of(Fitter(context), pool, theta[:3], fit.lengths[:3], KEY), pool, theta


@given(cases(), st.integers(1, 3))
@settings(max_examples=25)
def test_donors_are_the_most_similar_documents(case, nearest):
    _, pool, theta = make_bootstrap(case, nearest)
    for query in theta:
        similar = [naive.cosine(other, query) for other in theta]
        least = sorted(similar, reverse=True)[nearest - 1]
        expected = [d for d, value in enumerate(similar) if value >= least - 1e-12]
        assert pool.donors(query).tolist() == expected


@given(cases(), st.integers(0, 2**40))
@settings(max_examples=25)
def test_a_bootstrap_cluster_is_that_of_the_algorithm(case, replicate):
    counts, (table, _) = case
    bootstrap, pool, theta = make_bootstrap(case)
    drawn = dense(bootstrap.draw(replicate), table.n_words)
    for d in range(3):
        donors = pool.donors(theta[d])
        stream = draws(replicate, d)
        donor = donors[skip_block(stream) * len(donors) >> 32]
        length = int(counts[d].sum())
        assert drawn[d].tolist() == naive.bootstrap_document(counts[donor], length, stream)


@given(cases(), st.integers(0, 50))
@settings(max_examples=25)
def test_no_donor_serves_twice_while_there_is_another(case, replicate):
    counts, _ = case
    # Each document has a word of its own and hardly another, so its donor can be told.
    own = np.eye(len(counts), counts.shape[1], dtype=int) * 1000 + counts
    own = own[: min(own.shape)]
    if len(own) < 3:
        return
    bootstrap, _, _ = make_bootstrap((own, case[1]), nearest=len(own), once=True)
    drawn = dense(bootstrap.draw(replicate), counts.shape[1])
    assert len(set(drawn.argmax(axis=1).tolist())) == 3


@given(cases())
@settings(max_examples=15)
def test_the_score_is_that_of_both_models(case):
    _, (table, _) = case
    bootstrap, _, _ = make_bootstrap(case)
    (score,) = bootstrap.scores(range(5, 6))
    cluster = bootstrap.draw(5)
    topic = train_alternative(bootstrap.fitter.context, cluster)
    beta = np.vstack((table.dense(), topic.probabilities))
    null = fit_block(cluster, table).proportions.dense(table.n_topics)
    total = 0.0
    for d, document in enumerate(dense(cluster, table.n_words)):
        total += naive.document_log_likelihood(document, topic.proportions[d], beta)
        total -= naive.document_log_likelihood(document, null[d], table.dense())
    assert score == pytest.approx(total, rel=1e-9, abs=1e-9)


@given(cases())
@settings(max_examples=15)
def test_as_many_replicates_reach_a_share_as_in_a_loop(case):
    counts, _ = case
    bootstrap, pool, theta = make_bootstrap(case)
    topic = train_alternative(bootstrap.fitter.context, make_block(counts[:2]))
    donors = pool.donors(theta[0])
    shares = []
    for replicate in range(30):
        stream = draws(replicate, 0)
        donor = donors[skip_block(stream) * len(donors) >> 32]
        document = naive.bootstrap_document(counts[donor], int(counts[0].sum()), stream)
        (share,) = alternative.new_topic_shares(
            bootstrap.fitter.context, topic.probabilities, *make_block([document]).arrays
        )
        shares.append(share)
    assert all(0 <= share <= 1 for share in shares)
    share = sorted(shares)[15]
    test = MembershipTest(0, theta[0], int(counts[0].sum()), share, KEY, range(30), 30)
    reaching = sum(other >= share for other in shares)
    assert test.count(bootstrap.fitter, topic, pool) == reaching
    test = replace(test, limit=reaching - 1)
    assert test.count(bootstrap.fitter, topic, pool) >= reaching


@given(cases())
@settings(max_examples=25)
def test_the_share_of_the_new_topic_is_by_hard_assignment(case):
    counts, (table, _) = case
    topic = train_alternative(NullContext.of(table), make_block(counts))
    beta = np.vstack((table.dense(), topic.probabilities))
    for d, document in enumerate(counts):
        share = naive.hard_share(document, topic.proportions[d], beta, table.n_topics)
        assert topic.shares[d] == pytest.approx(share)
