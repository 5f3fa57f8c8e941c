from __future__ import annotations

import numba
import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from atd_dask.kernels import candidate_topics, mixtures, workspaces
from atd_dask.kernels.word_switches import SharedModel, estimate_words
from tests import naive
from tests.kernels.compiled import callable_kernel
from tests.kernels.strategies import make_block, make_expected, make_switches

load_document = callable_kernel(workspaces.load_document)
fill_columns = callable_kernel(workspaces.fill_columns)
fill_row = callable_kernel(workspaces.fill_row)
mix = callable_kernel(mixtures.mix)
all_gradients = callable_kernel(candidate_topics.all_gradients)
limit_gain = callable_kernel(candidate_topics.limit_gain)
is_hopeless = callable_kernel(candidate_topics.is_hopeless)

N_TOPICS, N_WORDS = 4, 8


@numba.njit(_nrt=False)  # it handles arrays that it does not own, as inner kernels do
def _improve_mixture(work, m, n, length):
    mixtures.maximise(mixtures.current_mixture(work), m, n, length)


improve_mixture = callable_kernel(_improve_mixture)


@st.composite
def documents(draw):
    """A document, a model with words that some topics make next to impossible, and the document's
    topics, one or two."""
    seed = draw(st.integers(0, 2**32 - 1))
    return make_document(seed, draw(st.sampled_from([0.0, 0.3, 0.6])), draw(st.integers(1, 2)))


def make_document(seed, impossible, n_active):
    rng = np.random.default_rng(seed)
    x = rng.gamma(0.4, 30.0, (N_TOPICS, N_WORDS))
    x[rng.random(x.shape) < impossible] = 0.0
    x[:, 0] += 1
    shared = SharedModel.from_counts(rng.integers(1, 40, N_WORDS))
    table = estimate_words(make_expected(x), shared, make_switches(rng.random(x.shape) < 0.9))
    counts = rng.poisson(rng.gamma(0.5, 4.0, N_WORDS))
    counts[0] += 1
    return counts, table, rng.permutation(N_TOPICS)[:n_active]


def prepare(counts, table, active):
    """Return a workspace with the best mixture of the active topics, how many words the document
    has, its length, and how many tokens are scarce."""
    block = make_block(counts[np.newaxis])
    work = workspaces.make_workspace(N_TOPICS, N_WORDS)
    n, length = load_document(table, block.terms, block.counts, work)
    fill_columns(table, np.zeros(0), work, n)
    for topic in range(N_TOPICS):
        fill_row(work, topic, n)
    work.active[: len(active)] = active
    work.theta[: len(active)] = 1 / len(active)
    mix(work.rows, work.active, work.theta, work.p, len(active), n)
    improve_mixture(work, len(active), n, length)
    return work, n, length, all_gradients(table, work, n, length)


def find_gain(counts, table, active, topic):
    """Return what a topic gains in the best mixture with the active ones."""
    best = [
        naive.document_log_likelihood(
            counts, naive.best_proportions(counts, table.dense(), topics, steps=400), table.dense()
        )
        for topics in (active.tolist(), [*active.tolist(), topic])
    ]
    return best[1] - best[0]


def with_impossible_words(test):
    """Also test documents with words that all of some topics make next to impossible."""
    for seed, impossible in ((8, 0.3), (13, 0.6), (20, 0.3)):
        test = example(make_document(seed, impossible, 1))(test)
    return test


@with_impossible_words
@given(documents())
def test_gradients_are_those_of_the_equation(case):
    counts, table, _ = case
    work, n, _, _ = prepare(*case)
    words = work.words[:n]
    expected = naive.gradients(counts[words], work.p[:n], table.dense()[:, words])
    np.testing.assert_allclose(work.all_g[:N_TOPICS], expected, rtol=1e-7)


@with_impossible_words
@given(documents())
def test_no_topic_gains_more_than_its_limit(case):
    counts, table, active = case
    work, _, length, scarce = prepare(*case)
    for topic in set(range(N_TOPICS)) - set(active.tolist()):
        if work.all_g[topic] > 1:
            limit = limit_gain(work, topic, len(active), length, scarce)
            assert find_gain(counts, table, active, topic) <= limit + 1e-3


@given(documents(), st.floats(0.01, 20))
def test_what_is_hopeless_does_not_pay(case, cost):
    counts, table, active = case
    work, n, length, _ = prepare(*case)
    for topic in set(range(N_TOPICS)) - set(active.tolist()):
        if is_hopeless(work, topic, len(active), n, length, cost):
            assert find_gain(counts, table, active, topic) <= cost + 1e-3


def test_a_topic_that_explains_half_of_a_document_is_not_hopeless():
    x = np.array([[40.0, 1, 1, 1], [1.0, 1, 1, 40]])
    shared = SharedModel.from_counts(np.array([5, 5, 5, 5]))
    table = estimate_words(make_expected(x), shared, make_switches(x > 0))
    block = make_block(np.array([[9, 1, 1, 9]]))
    work = workspaces.make_workspace(2, 4)
    n, length = load_document(table, block.terms, block.counts, work)
    fill_columns(table, np.zeros(0), work, n)
    for topic in range(2):
        fill_row(work, topic, n)
    work.active[0], work.theta[0] = 0, 1.0
    mix(work.rows, work.active, work.theta, work.p, 1, n)
    work.inverse[:n] = 1 / work.p[:n]
    assert not is_hopeless(work, 1, 1, n, length, 3.0)
    assert is_hopeless(work, 1, 1, n, length, 300.0)
