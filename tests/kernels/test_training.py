"""The search is GEM: every step of it lowers the BIC of the paper's equation."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atd_dask.kernels import mixtures, workspaces
from atd_dask.kernels.model import Proportions
from atd_dask.kernels.topic_edits import drop_topics, split_topics
from atd_dask.kernels.training import (
    SPLITS,
    Convergence,
    CostTerms,
    OrderRange,
)
from atd_dask.kernels.word_switches import SharedModel, WordSwitches, estimate_words
from atd_dask.kernels.workspaces import make_workspace
from tests import naive
from tests.kernels.cluster_search import check_fall, random_search, read_block, watch_search
from tests.kernels.compiled import callable_kernel
from tests.kernels.strategies import (
    corpora,
    dense_switches,
    make_block,
    make_expected,
    make_switches,
    models,
)
from tests.kernels.test_statistics import dense

fill_rows = callable_kernel(workspaces.fill_rows)
load_document = callable_kernel(workspaces.load_document)
log_likelihood = callable_kernel(mixtures.log_likelihood)
# It counts no references, so compiled code must not hand its arrays to Python.
current_mixture = mixtures.current_mixture.py_func
maximise = callable_kernel(mixtures.maximise)
mix = callable_kernel(mixtures.mix)

seeds = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize(
    ("name", "orders"),
    [
        ("synthetic", OrderRange(15, 8)),
        ("reuters", OrderRange(35, 20, 3)),
        ("newsgroups", OrderRange(32, 28, 2)),
    ],
)
def test_bic_never_rises_on_the_corpora_of_the_paper(name, orders):
    block, n_words = read_block(name)
    iterations, end = watch_search(block, n_words, orders)
    found = [record.n_topics for record in end.records]
    ends = [step for step in iterations if step.state.start is None]
    n_tried = next((n for n, step in enumerate(ends) if step.previous.again), len(ends))
    tried = found[:n_tried]
    assert len(tried) > 1
    assert len(set(tried)) == len(tried), "each once, before the best is tried again"
    assert orders.max >= tried[0]
    assert min(found) >= orders.min
    assert len(iterations) == sum(record.iterations for record in end.records)
    assert check_fall(block, iterations) < 1e-12


def test_the_number_of_topics_of_the_synthetic_corpus_is_found():
    """With several starts; a single one sometimes ends at 9 topics, with a BIC that is higher by
    ten thousand."""
    block, n_words = read_block("synthetic")
    ends = [watch_search(block, n_words, OrderRange(15, 9), seed=seed)[1] for seed in range(3)]
    records = [record for end in ends for record in end.records]
    assert min(records, key=lambda record: record.bic).n_topics == 10


def test_what_is_skipped_next_to_the_best_order_is_tried():
    block, n_words = read_block("reuters")
    orders = OrderRange(36, 10)
    end = watch_search(block, n_words, orders, Convergence(max_iterations=1, again=False))[1]
    found = [record.n_topics for record in end.records]
    n_down = 1 + next(n for n, (last, this) in enumerate(pairwise([*found, 99])) if this > last)
    down, filled = found[:n_down], found[n_down:]
    assert down == list(accumulate(down, lambda n, _: n - orders.stride(n)))
    best = min(end.records[:n_down], key=lambda record: record.bic).n_topics
    # Every order between the neighbours of the best one, each once.
    index = down.index(best)
    around = range(min(down[index + 1 : index + 2], default=best), down[max(index - 1, 0)] + 1)
    assert sorted(filled) == [n for n in around if n not in down]
    assert orders.is_past(best, down[-1])
    every = watch_search(
        block, n_words, replace(orders, min=33, every=True), Convergence(max_iterations=1)
    )[1]
    assert [record.n_topics for record in every.records[:4]] == [36, 35, 34, 33]


@pytest.mark.parametrize(
    ("orders", "tried"),
    [
        (OrderRange(36, 10), [36, 32, 28, 25, 22, 20, 18, 16, 14, 13, 12, 11, 10]),
        (OrderRange(36, 30), [36, 32, 30]),
        (OrderRange(36, 30, every=True), [36, 35, 34, 33, 32, 31, 30]),
        (OrderRange(100, 60, 4), [100, 88, 80, 72, 64, 60]),
        (OrderRange(3, 1), [3, 2, 1]),
        (OrderRange(5, 5), [5]),
    ],
)
def test_strides_follow_the_number_of_topics(orders, tried):
    """As many steps as fit into an eighth of the topics, but not beyond the least."""
    found = [orders.max]
    while len(found) < len(tried):
        found.append(found[-1] - orders.stride(found[-1]))
    assert found == tried
    assert orders.count() == len(tried)


def test_the_best_order_is_started_again_as_long_as_that_pays():
    block, n_words = read_block("reuters")
    orders = OrderRange(35, 20, 5, every=True)
    once = watch_search(block, n_words, orders, Convergence(again=False))[1]
    end = watch_search(block, n_words, orders)[1]
    again = end.records[len(once.records) :]
    assert end.records[: len(once.records)] == once.records
    best = min(once.records, key=lambda record: record.bic)
    assert {record.n_topics for record in again} == {best.n_topics}
    bics = [best.bic, *(record.bic for record in again)]
    falls = [before - after > 1e-5 * after for before, after in pairwise(bics)]
    assert falls == [True] * (len(again) - 1) + [False]
    assert len(again) > 1


def test_topics_of_the_best_order_are_split_if_a_restart_pays():
    block, n_words = read_block("reuters")
    orders = OrderRange(36, 20, 4)
    iterations, end = watch_search(block, n_words, orders)
    ends = [step for step in iterations if step.state.start is None]
    (first,) = (n for n, step in enumerate(ends) if step.previous.again and not step.state.again)
    for turn in range(1, SPLITS + 1):
        known = end.records[: first + 1 + 2 * (turn - 1)]
        best = min(known, key=lambda record: record.bic).n_topics
        mine = [step for step in ends if step.previous.n_splits == turn and not step.previous.again]
        tried = [step.table.n_topics for step in mine]
        assert tried == [best + orders.split(best), best]
    assert end.n_splits == SPLITS
    once, best = (min(some, key=lambda record: record.bic) for some in (known[:-6], end.records))
    assert best.bic < once.bic
    # Then it is restarted with a tenth of the tolerance.
    last = [step for step in iterations if step.previous.again and step.previous.n_splits]
    falls = [step.previous.bic - step.bic for step in last if step.previous.iteration > 2]
    assert min(falls) <= 1e-5 * best.bic < max(falls) <= 1e-4 * best.bic


def test_no_topic_is_split_if_a_restart_does_not_pay():
    block, n_words = read_block("synthetic")
    iterations, end = watch_search(block, n_words, OrderRange(15, 9))
    assert any(step.previous.again for step in iterations)
    assert end.n_splits == 0


@pytest.mark.parametrize(
    ("orders", "n_topics", "n_split"),
    [
        (OrderRange(36, 10), 25, 3),
        (OrderRange(36, 10), 35, 1),
        (OrderRange(36, 10), 36, 0),
        (OrderRange(36, 10, limit=200), 36, 4),
        (OrderRange(36, 10, every=True), 25, 0),
        (OrderRange(100, 60, 4), 80, 8),
        (OrderRange(100, 60, 4), 97, 0),
        (OrderRange(3, 1, limit=200), 3, 1),
        (OrderRange(9, 1, 3), 2, 0),
        (OrderRange(36, 36), 25, 0),
        (OrderRange(36, 36, limit=200), 25, 3),
    ],
)
def test_as_many_topics_are_split_as_a_stride_drops(orders, n_topics, n_split):
    """Not more than there may be, or than there are."""
    assert orders.split(n_topics) == n_split


@given(seeds)
@settings(max_examples=80)
def test_bic_never_rises_however_a_corpus_is_cut(seed):
    block, iterations, end = random_search(seed)
    assert iterations
    assert end.finished
    assert check_fall(block, iterations) < 1e-12


@given(seeds)
@settings(max_examples=10)
def test_whole_evaluation_is_the_equation(seed):
    block, iterations, _ = random_search(seed)
    step = iterations[-1]
    known = np.flatnonzero(np.diff(block.indptr))
    # A topic may be active at proportion 0; the equation as loops sees what is above 0.
    seen = replace(step.result.proportions, theta=step.result.proportions.theta + 1e-300)
    theta = seen.dense(step.table.n_topics)
    counts = np.zeros((len(block), step.table.n_words), int)
    counts[np.repeat(np.arange(len(block)), np.diff(block.indptr)), block.terms] = block.counts
    u = dense_switches(WordSwitches.of(step.table), step.table.n_words)
    value = naive.bic(counts[known], theta[known], step.table.dense(), u)
    assert naive.bic_of_blocks(block, step.result.proportions, step.table) == pytest.approx(
        value, rel=1e-11
    )
    assert step.bic == pytest.approx(value, rel=1e-11)


@given(seeds)
@settings(max_examples=20)
def test_the_authors_terms_are_nats_times_log_2_without_the_number_of_topics(seed):
    block, iterations, _ = random_search(seed, terms=CostTerms(authors=True))
    for step in iterations:
        places = step.table.n_topics * step.table.n_words
        nats = places * naive.entropy(len(step.table.topics) / places) * math.log(2)
        paper = naive.bic_of_blocks(block, step.result.proportions, step.table)
        assert step.bic == pytest.approx(paper - nats + nats * math.log(2), rel=1e-11)
    assert CostTerms(authors=True).in_switch(7) == pytest.approx(math.log(2) / 7)


@st.composite
def cases(draw):
    counts = draw(corpora())
    return counts, draw(models(counts.shape[1]))


@given(cases(), seeds)
def test_a_topic_that_is_split_shares_its_words_with_a_new_one(case, seed):
    _, (table, _) = case
    n_topics, n_words = table.n_topics, table.n_words
    rng = np.random.default_rng(seed)
    n_split = int(rng.integers(1, n_topics + 1))
    split = split_topics(table, n_split, rng)
    before, after = (
        dense_switches(WordSwitches.of(one), n_words).astype(bool) for one in (table, split)
    )
    assert len(after) == n_topics + n_split
    old, new = after[:n_topics], after[n_topics:]
    lost = before & ~old
    assert not np.any(old & ~before)
    rows = [sorted(row.tolist() for row in some if row.any()) for some in (lost, new)]
    assert rows[0] == rows[1]
    dense = split.dense()
    np.testing.assert_array_equal(dense[:n_topics][old], table.dense()[old])
    assert sorted(dense[n_topics:][new]) == sorted(table.dense()[lost])
    for first, last in pairwise(split.indptr):
        assert np.all(np.diff(split.topics[first:last]) > 0)


def make_proportions(theta, active):
    documents, topics = np.nonzero(active)
    indptr = np.searchsorted(documents, np.arange(len(theta) + 1))
    return Proportions(indptr, topics.astype(np.int32), theta[documents, topics])


def best_mixture(table, document, active):
    """Proportions and log-likelihood of a document over given topics, by the kernels."""
    block = make_block([document])
    work = make_workspace(table.n_topics, len(block.terms))
    n, length = load_document(table, block.terms, block.counts, work)
    fill_rows(table, np.zeros(0), work, n)
    m = len(active)
    work.active[:m] = active
    work.theta[:m] = 1 / m
    mix(work.rows, work.active, work.theta, work.p, m, n)
    maximise(current_mixture(work), m, n, length)
    theta = np.zeros(table.n_topics)
    theta[active] = work.theta[:m]
    return theta, log_likelihood(work.counts, work.p, n), work.log_choose


@given(cases(), seeds)
def test_change_of_a_topic_switch_is_the_difference_of_two_evaluations(case, seed):
    counts, (table, _) = case
    rng = np.random.default_rng(seed)
    block = make_block(counts)
    n_topics = table.n_topics
    active = rng.random((len(counts), n_topics)) < 0.5
    active[np.arange(len(counts)), rng.integers(n_topics, size=len(counts))] = True
    active[rng.integers(len(counts), size=n_topics), np.arange(n_topics)] = True
    theta = np.stack(
        [
            best_mixture(table, document, np.flatnonzero(a))[0]
            for document, a in zip(counts, active, strict=True)
        ]
    )
    before = naive.bic_of_blocks(block, make_proportions(theta, active), table)
    lengths = counts.sum(axis=1)
    specific = table.specific_words()
    for d in range(len(counts)):
        for j in range(n_topics):
            flipped = active.copy()
            flipped[d, j] = not active[d, j]
            if not flipped[d].any() or not flipped[:, j].any():
                continue
            m, m_after = active[d].sum(), flipped[d].sum()
            now, likelihood, log_choose = best_mixture(table, counts[d], np.flatnonzero(active[d]))
            new, after, _ = best_mixture(table, counts[d], np.flatnonzero(flipped[d]))
            tokens, tokens_after = lengths @ active[:, j], lengths @ flipped[:, j]
            structure = log_choose[m_after] - log_choose[m]
            structure += 0.5 * (m_after - m) * math.log(lengths[d] / (2 * math.pi))
            exact = 0.5 * specific[j] * math.log(tokens_after / tokens)
            change = structure + exact - (after - likelihood)
            other = theta.copy()
            other[d] = new
            full = naive.bic_of_blocks(block, make_proportions(other, flipped), table) - before
            assert change == pytest.approx(full, rel=1e-8, abs=1e-8 * abs(before))
            tangent = 0.5 * specific[j] / tokens * (tokens_after - tokens)
            assert tangent >= exact - 1e-12
            np.testing.assert_array_equal(now, theta[d])


@given(seeds)
@settings(max_examples=30)
def test_documents_fall_by_what_they_say_and_the_corpus_by_no_less(seed):
    """The fall of each document's own objective, against tangents, is exact. Together they lower
    the BIC by at least the sum, for additions and removals."""
    block, iterations, _ = random_search(seed)
    lengths = np.bincount(
        np.repeat(np.arange(len(block)), np.diff(block.indptr)),
        block.counts,
        minlength=len(block),
    )
    for step in iterations:
        tokens = step.result.expected.tokens
        before = np.bincount(
            step.start.topics,
            np.repeat(lengths, np.diff(step.start.indptr)),
            minlength=len(tokens),
        )
        tangent = step.slope @ (tokens - before)
        specific = step.table.specific_words()
        exact = 0.5 * specific @ np.log(tokens / before)
        assert exact <= tangent + 1e-9
        fall = naive.bic_of_blocks(block, step.start, step.table) - step.bic
        own = fall + exact - tangent
        assert own >= -1e-9 * (1 + abs(step.bic))


@st.composite
def tiny_searches(draw):
    """Counts, and a model with random switches to start from: up to 3 topics, 5 words and 4
    documents."""
    rng = np.random.default_rng(draw(seeds))
    n_docs, n_words = draw(st.integers(1, 4)), draw(st.integers(3, 5))
    counts = rng.poisson(rng.choice([0.5, 5.0, 50.0]), (n_docs, n_words)) + 1
    counts *= rng.choice([1, 4], counts.shape)
    u = rng.random((draw(st.integers(1, 3)), n_words)) < rng.choice([0.1, 0.6])
    u[:, :2] = True
    x = rng.gamma(1.0, 10.0, u.shape) + 1e-3
    common = SharedModel.from_counts(counts.sum(axis=0))
    return counts, estimate_words(make_expected(x), common, make_switches(u))


@given(tiny_searches())
@settings(max_examples=30)
def test_what_a_tiny_search_accepts_is_confirmed_by_trying_everything(case):
    counts, table = case
    block = make_block(counts)
    orders, convergence = OrderRange(table.n_topics, 1), Convergence(0.0, 6)
    iterations, _ = watch_search(block, counts.shape[1], orders, convergence, table=table)
    for step in iterations:
        for d, document in enumerate(counts):
            check_document(step, d, document)
        if step.state.start is not None:
            check_words(step)


def check_document(step, d, document):
    """No mixture of the reached topics is better, nor is any with one switch flipped, and every
    step went down."""
    table, proportions = step.table, step.result.proportions
    beta = table.dense()
    values = naive.objectives_of_supports(document, beta, steps=60)

    def objective(proportions):
        entries = slice(proportions.indptr[d], proportions.indptr[d + 1])
        theta = np.zeros(table.n_topics)
        theta[proportions.topics[entries]] = proportions.theta[entries]
        active = tuple(proportions.topics[entries].tolist())
        mine = naive.document_objective(document, theta, beta, len(active))
        return active, mine + penalty(active)

    def penalty(active):
        return sum(document) * sum(step.slope[j] for j in active)

    before, at_start = objective(step.start)
    reached, mine = objective(proportions)
    assert mine <= at_start + 1e-9
    assert mine <= values[reached] + penalty(reached) + 1e-5
    for other, value in values.items():
        changed = set(other) ^ set(reached)
        if len(changed) == 1 and not any(step.anchors[j] == d for j in changed):
            assert mine <= value + penalty(other) + 1e-5
    assert all(j in reached for j in before if step.anchors[j] == d)


def check_words(step):
    """At the price of one more word than there were, the reached switches are no worse than any
    that differ by one switch; and they are no worse than the start."""
    table = step.state.table
    n_words = table.n_words
    x = dense(step.result.expected, n_words)
    tokens = step.result.expected.tokens
    before = dense_switches(WordSwitches.of(step.table), n_words)
    after = dense_switches(WordSwitches.of(table), n_words)
    reached = naive.expected_bic(x, after, table.shared, tokens)
    assert reached <= naive.expected_bic(x, before, table.shared, tokens) + 1e-9
    price = naive.encoding_of_one_more(before.sum(), before.size)
    reached = naive.expected_bic(x, after, table.shared, tokens, price)
    for j in range(table.n_topics):
        for pattern in range(1, 2**n_words):
            u = after.copy()
            u[j] = [(pattern >> n) & 1 for n in range(n_words)]
            one = (u[j] ^ after[j]).sum() == 1
            kept = x[j, u[j] & after[j]].sum()
            if one and u[j].sum() >= 2 and kept > 0:
                assert reached <= naive.expected_bic(x, u, table.shared, tokens, price) + 1e-9
    np.testing.assert_allclose(
        table.dense(), naive.word_probabilities(x, after, table.shared), rtol=1e-9
    )


def test_a_topic_that_is_no_documents_best_is_dropped():
    counts = np.tile([5, 3, 2, 0], (8, 1))
    block = make_block(counts)
    iterations, end = watch_search(block, 4, OrderRange(6, 2), Convergence(again=False))
    assert [record.n_topics for record in end.records] == [1]
    assert all(step.result.expected.tokens.tolist() == [80] for step in iterations)


def test_dropped_topics_leave_the_others_their_words():
    rng = np.random.default_rng(5)
    shared = SharedModel.from_counts(rng.integers(1, 9, 6))
    x = rng.gamma(0.5, 10.0, (4, 6)) + 1e-3
    expected = make_expected(x)
    table = estimate_words(expected, shared, WordSwitches.occurring(expected))
    rest = drop_topics(table, np.array([False, True, False, True]))
    np.testing.assert_array_equal(rest.dense(), table.dense()[[0, 2]])
    assert rest.specific_words().tolist() == [6, 6]
    np.testing.assert_array_equal(np.log(rest.dense() / rest.shared).T.ravel(), rest.log_ratio)
