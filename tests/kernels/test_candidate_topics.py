from __future__ import annotations

import numba
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from atd_dask.kernels import candidate_topics, mixtures, workspaces
from atd_dask.kernels.word_switches import SharedModel, estimate_words, make_table
from tests import naive
from tests.kernels.compiled import callable_kernel
from tests.kernels.strategies import make_block, make_expected, make_switches

load_document = callable_kernel(workspaces.load_document)
fill_columns = callable_kernel(workspaces.fill_columns)
fill_row = callable_kernel(workspaces.fill_row)
mix = callable_kernel(mixtures.mix)
all_gradients = callable_kernel(candidate_topics.all_gradients)
find_gradient = callable_kernel(candidate_topics.find_gradient)
sum_coarsely = callable_kernel(candidate_topics.sum_coarsely)
limit_gain = callable_kernel(candidate_topics.limit_gain)
list_candidates = callable_kernel(candidate_topics.list_candidates)
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
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    x = rng.gamma(0.4, 30.0, (N_TOPICS, N_WORDS))
    x[rng.random(x.shape) < draw(st.sampled_from([0.0, 0.3, 0.6]))] = 0.0
    x[:, 0] += 1
    shared = SharedModel.from_counts(rng.integers(1, 40, N_WORDS))
    table = estimate_words(make_expected(x), shared, make_switches(rng.random(x.shape) < 0.9))
    counts = rng.poisson(rng.gamma(0.5, 4.0, N_WORDS))
    counts[0] += 1
    return counts, table, rng.permutation(N_TOPICS)[: draw(st.integers(1, 2))]


def prepare(counts, table, active):
    """Return a workspace with the best mixture of the active topics and the rows of all, how many
    words the document has, and its length."""
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
    return work, n, length


def find_gain(counts, table, active, topic):
    """Return what a topic gains in the best mixture with the active ones."""
    best = [
        naive.document_log_likelihood(
            counts, naive.best_proportions(counts, table.dense(), topics, steps=400), table.dense()
        )
        for topics in (active.tolist(), [*active.tolist(), topic])
    ]
    return best[1] - best[0]


@given(documents())
def test_the_gradient_of_a_topic_has_the_bits_of_all(case):
    _, table, _ = case
    work, n, length = prepare(*case)
    all_gradients(table, work, n, length)
    expected = work.all_g.copy()
    work.all_g[:] = np.nan
    for topic in range(N_TOPICS):
        find_gradient(table, work, topic, n, length)
    np.testing.assert_array_equal(work.all_g, expected)


@given(documents())
def test_coarse_sums_are_not_too_small(case):
    work, n, _ = prepare(*case)
    scarce, base = sum_coarsely(work, n)
    weights = work.counts[:n] / work.p[:n]
    rare = work.p[:n] < candidate_topics.SCARCE * work.shared[:n]
    assert scarce == work.counts[:n][rare].sum()
    factor = 1 + (n + 4) * candidate_topics.COARSE
    for topic in range(N_TOPICS):
        terms = weights * work.rows[topic, :n]
        both = terms[rare].sum(), terms[~rare].sum()
        sums = float(work.scarce_g[topic]), float(work.other_g[topic]) + base
        for total, exact in zip(sums, both, strict=True):
            assert total * factor >= exact * (1 - 1e-12)
            assert total <= exact * factor * (1 + 1e-12)


@given(documents())
def test_no_topic_gains_more_than_its_limit(case):
    counts, table, active = case
    work, n, length = prepare(*case)
    all_gradients(table, work, n, length)
    factor = 1 + (n + 4) * candidate_topics.COARSE
    sums = candidate_topics.CoarseSums(length, *sum_coarsely(work, n), factor)
    for topic in set(range(N_TOPICS)) - set(active.tolist()):
        if work.all_g[topic] > 1:
            limit = limit_gain(work, sums, topic, len(active))
            assert find_gain(counts, table, active, topic) <= limit + 1e-3


@given(documents(), st.floats(0.01, 20))
def test_what_is_hopeless_does_not_pay(case, cost):
    counts, table, active = case
    work, n, length = prepare(*case)
    for topic in set(range(N_TOPICS)) - set(active.tolist()):
        if is_hopeless(work, topic, len(active), n, length, cost):
            assert find_gain(counts, table, active, topic) <= cost + 1e-3


@given(documents(), st.floats(0.01, 20))
def test_topics_that_pay_are_listed(case, cost):
    counts, table, active = case
    work, n, length = prepare(*case)
    work.costs[:] = cost
    size = list_candidates(work, len(active), n, length)
    listed = work.candidates[:size].tolist()
    assert listed == sorted(set(listed) - set(active.tolist()))
    for topic in set(range(N_TOPICS)) - set(active.tolist()) - set(listed):
        assert find_gain(counts, table, active, topic) <= cost + 1e-3


def test_a_word_beyond_single_precision_rules_nothing_out():
    # Under the first topic the second word is so unlikely that its weight overflows.
    shared = np.array([0.5, 0.5])
    specific = np.array([[True, True], [True, False]])
    table = make_table(shared, specific, np.array([[1.0, 0.0], [0.5, 0.5]]))
    counts = np.array([6, 2])
    work = workspaces.make_workspace(2, 2)
    block = make_block(counts[np.newaxis])
    n, length = load_document(table, block.terms, block.counts, work)
    fill_columns(table, np.zeros(0), work, n)
    for topic in range(2):
        fill_row(work, topic, n)
    work.active[0], work.theta[0], work.costs[:] = 0, 1.0, 20.0
    mix(work.rows, work.active, work.theta, work.p, 1, n)
    assert work.p[1] < 1e-50
    assert list_candidates(work, 1, n, length) == 1
    assert work.candidates[0] == 1


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
    assert not is_hopeless(work, 1, 1, n, length, 3.0)
    assert is_hopeless(work, 1, 1, n, length, 300.0)
