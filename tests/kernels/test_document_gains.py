"""What documents gain by a topic that they did not teach."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from atd_dask.kernels.document_gains import FOLDS, cross_fit_gains
from atd_dask.kernels.fitters import Fitter
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


def test_a_document_by_itself_gains_nothing():
    batch = make_batch(np.ones((1, 4), int), naive_table())
    assert cross_fit_gains(Fitter(batch.context), batch.take(np.array([0]))).tolist() == [0.0]


def naive_table():
    from atd_dask.kernels.word_switches import make_table

    return make_table(np.full(4, 0.25), np.zeros((1, 4), bool), np.full((1, 4), 0.25))
