"""Support: what documents say of a topic that they did not teach."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from atd_dask.kernels.excess import measure_excess
from atd_dask.kernels.fitters import Fitter
from atd_dask.kernels.support import (
    CAP,
    FOLDS,
    NormalDocuments,
    count_bearing_out,
    cross_fit_gains,
)
from tests import naive
from tests.kernels.test_cluster_growth import cases, make_batch


@given(cases())
@settings(max_examples=20)
def test_documents_by_themselves_gain_what_they_gain_in_their_batch(case):
    counts, (table, _) = case
    batch = make_batch(counts, table)
    topic = batch.train(np.array([0, 1]))
    gains = Fitter(batch.context).gains(topic, batch.take(np.arange(len(counts))))
    everyone = np.ones(len(counts), bool)
    np.testing.assert_array_equal(gains, batch.gains_above(topic, everyone, -np.inf))


@given(cases())
@settings(max_examples=20)
def test_every_document_is_asked_by_a_topic_that_others_taught(case):
    counts, (table, _) = case
    batch = make_batch(counts, table)
    fitter = Fitter(batch.context)
    cluster = batch.take(np.arange(len(counts)))

    def gain(teaching, asked):
        sample = batch.take(np.array(teaching))
        topic = fitter.train(sample.block).smoothed(fitter.context)
        return fitter.gains(topic, batch.take(np.array([asked])))[0]

    expected = naive.cross_fitted(len(counts), FOLDS, gain)
    gains = cross_fit_gains(fitter, cluster)
    np.testing.assert_array_equal(gains, expected)
    assert count_bearing_out(gains) == pytest.approx(naive.bearing_out(expected, CAP))


def test_no_document_decides_alone():
    assert count_bearing_out(np.array([1e6, -1e6, 3.0])) == 3.0 / CAP
    assert count_bearing_out(np.full(4, 1e6)) == 4


def test_a_document_by_itself_has_no_support():
    batch = make_batch(np.ones((1, 4), int), naive_table())
    assert cross_fit_gains(Fitter(batch.context), batch.take(np.array([0]))).tolist() == [0.0]


def naive_table():
    from atd_dask.kernels.word_switches import make_table

    return make_table(np.full(4, 0.25), np.zeros((1, 4), bool), np.full((1, 4), 0.25))


@given(cases())
@settings(max_examples=20)
def test_normal_documents_bear_a_topic_out_where_they_gain_enough(case):
    counts, (table, _) = case
    batch = make_batch(counts, table)
    topic = batch.train(np.array([0, 1]))
    gains = batch.gains_above(topic, np.ones(len(counts), bool), -np.inf)
    normal = NormalDocuments(make_batch(counts, table))
    expected = naive.bearing_out([gain for gain in gains if gain > 0.5], CAP)
    assert normal.count_bearing_out(topic, 0.5) == pytest.approx(expected)
    nothing = NormalDocuments(make_batch(counts[:0], table))
    assert nothing.count_bearing_out(topic, 0.5) == 0.0


@given(st.floats(-5, 500), st.integers(1, 10**6), st.floats(0, 10**5), st.integers(0, 10**7))
@example(-1.0, 1, 0.0, 1)
@example(-1.0, 1, 0.0, 0)
@example(1e-9, 1, 0.0, 10**7)
@settings(max_examples=500)
def test_excess_is_that_of_the_definition(n_found, n_batch, n_usual, n_normal):
    excess = measure_excess(n_found, n_batch, n_usual, n_normal)
    expected = naive.excess(n_found, n_batch, n_usual, n_normal)
    np.testing.assert_allclose(excess, expected, rtol=1e-6, atol=1e-6)


def test_a_kind_that_is_as_frequent_among_normal_documents_is_no_excess():
    assert measure_excess(10.0, 500, 40.0, 2000) == 0.0
    assert measure_excess(0.0, 500, 0.0, 2000) == 0.0
    some, more = measure_excess(10.0, 500, 10.0, 2000), measure_excess(20.0, 500, 10.0, 2000)
    assert 0 < some < more < measure_excess(20.0, 500, 0.0, 2000)
