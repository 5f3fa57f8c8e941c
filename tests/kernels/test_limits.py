"""Upper limits of log-likelihoods hold for every fit."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from atd_dask.kernels import limits
from atd_dask.kernels.alternative import NullContext, train_alternative
from atd_dask.kernels.fitting import fit_block
from tests import naive
from tests.kernels.compiled import callable_kernel
from tests.kernels.strategies import cases, make_block

find_limits = callable_kernel(limits.find_limits)


@given(cases())
@settings(max_examples=10)
def test_no_mixture_with_the_new_topic_exceeds_its_limit(case) -> None:
    counts, (table, _) = case
    block, context = make_block(counts), NullContext.of(table)
    fit = fit_block(block, table)
    topic = train_alternative(context, block)
    arrays = limits.start_limits(context, *block.arrays, *fit.proportions.arrays)
    rows = limits.FittedRows(*block.arrays, fit.lengths, fit.log_likelihoods)
    out, outside = np.zeros(len(counts)), np.ones(len(counts), bool)
    find_limits(topic.probabilities, rows, limits.StoredMixtures(*arrays, False), outside, out)
    beta = np.vstack((table.dense(), topic.probabilities))
    for d, document in enumerate(counts):
        if fit.lengths[d] == 0:
            assert out[d] == -np.inf
            continue
        best = naive.best_proportions(document, beta, range(len(beta)), 50)
        assert naive.document_log_likelihood(document, best, beta) <= out[d] + 1e-6
    find_limits(topic.probabilities, rows, limits.StoredMixtures(*arrays, False), ~outside, out)
    assert (out == -np.inf).all()
