"""The contrast search: what a group is, where it is cut, and what is two."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from atd_dask.kernels import contrast
from atd_dask.kernels.calibration import estimate_p_value
from atd_dask.kernels.contrast import (
    LEAST_DOCUMENTS,
    LEAST_RATIO,
    NEIGHBOURS,
    ContrastSearch,
    NormalVectors,
    Start,
)
from atd_dask.kernels.vectors import Ranking, Vectors, WholeVectors, find_idf
from tests import naive
from tests.kernels.strategies import make_block


def search_in(batch, normal, max_size=None):
    """A search among all documents of a batch."""
    n_words = batch.shape[1]
    idf = find_idf((batch > 0).sum(axis=0), len(batch), (normal > 0).sum(axis=0), len(normal))
    vectors = WholeVectors(Vectors.of(make_block(batch), idf), n_words)
    held_against = NormalVectors.of(make_block(normal), idf)
    return ContrastSearch(vectors, held_against, np.ones(len(batch), bool), max_size)


def draw_planted(n_planted=20):
    """A batch whose first documents have a topic of their own on half of their words."""
    rng = np.random.default_rng(4)
    topics = 0.8 * rng.dirichlet(np.full(200, 0.05), 4) + 0.2 / 200
    normal = np.stack([rng.multinomial(60, topics[d % 3]) for d in range(300)])
    kinds = [(topics[d % 3] + topics[3]) / 2 for d in range(n_planted)]
    kinds += [topics[d % 3] for d in range(80 - n_planted)]
    return np.stack([rng.multinomial(60, kind) for kind in kinds]), normal


@pytest.fixture(scope="module")
def planted():
    return search_in(*draw_planted())


@pytest.fixture(scope="module")
def two_planted():
    """Documents 0 to 19 have one topic of their own, 20 to 49 another."""
    rng = np.random.default_rng(7)
    topics = 0.9 * rng.dirichlet(np.full(300, 0.03), 5) + 0.1 / 300
    topics[3, 150:] = topics[4, :150] = 0
    topics /= topics.sum(axis=1, keepdims=True)
    normal = np.stack([rng.multinomial(80, topics[d % 3]) for d in range(400)])
    kinds = [3] * 20 + [4] * 30 + [0, 1, 2] * 30
    return search_in(np.stack([rng.multinomial(80, topics[kind]) for kind in kinds]), normal)


small_counts = arrays.arrays(
    np.int64, st.tuples(st.integers(6, 9), st.just(7)), elements=st.integers(0, 3)
)


@given(small_counts, small_counts)
@settings(max_examples=60, deadline=None)
def test_scores_and_cut_are_those_of_the_definition(batch, normal):
    search = search_in(batch, normal)
    vectors = naive.tf_idf(batch, batch, normal)
    usual = naive.tf_idf(normal, batch, normal)
    group = [0, 2, 3]
    scores, of_normal = naive.contrast_scores(vectors, usual, group)
    learned = search._learn(np.array(group))
    np.testing.assert_allclose(learned.own, [scores[row] for row in group], atol=1e-12)
    outside = search.batch.index.score(*learned.outside)
    others = [row for row in range(len(batch)) if row not in group]
    np.testing.assert_allclose(outside[others], np.array(scores)[others], atol=1e-12)
    found = np.sort(search.normal.index.score(*learned.normal))
    np.testing.assert_allclose(found, np.sort(of_normal), atol=1e-12)
    judged = search.judge(np.array(group))
    # Scores that differ by rounding alone may be cut either way.
    rounded = [round(score, 9) for score in scores], [round(score, 9) for score in of_normal]
    size, support = naive.best_cut(*rounded, LEAST_RATIO, LEAST_DOCUMENTS, search.most)
    if size and len(set(rounded[0]) | set(rounded[1])) == len(batch) + len(normal):
        assert (len(judged.documents), judged.support) == (size, pytest.approx(support))


def test_a_start_grows_to_the_group(planted):
    for start in planted.choose_starts(5):
        group = planted.grow(start)
        assert set(group.documents) >= set(range(20))
        assert len(group.documents) <= 22
        assert group.support > 40


def test_starts_are_the_documents_of_unexpected_words(planted):
    starts = planted.choose_starts(20)
    assert all(len(start.documents) == NEIGHBOURS + 1 for start in starts)
    assert all(len(set(start.documents.tolist()) & set(range(20))) >= 4 for start in starts[:10])


def test_words_tell_the_group_from_normal_documents(planted):
    words = planted.words(np.arange(20))
    batch, normal = draw_planted()
    shares = [(counts[:, words[:5]] > 0).mean(axis=0) for counts in (batch[:20], normal)]
    assert (shares[0] > 2 * shares[1]).all()


def test_a_batch_like_the_normal_documents_has_what_held_out_ones_have():
    drawn = np.random.default_rng(3).poisson(0.2, (360, 80))

    def find_most(first):
        order = np.roll(np.arange(360), -first)
        search = search_in(drawn[order[:60]], drawn[order[60:]])
        groups = [search.grow(start) for start in search.choose_starts(60)]
        return max((group.support for group in groups if group is not None), default=0.0)

    references = np.array([find_most(60 * number) for number in range(1, 6)])
    assert estimate_p_value(find_most(0), references) > 0.05


def test_a_group_is_no_larger_than_allowed():
    small = search_in(*draw_planted(), max_size=7)
    assert len(small.grow(Start(np.arange(6), small.most)).documents) == 7


def test_a_document_that_repeats_a_word_changes_nothing_for_the_others():
    batch, normal = draw_planted()
    bursty = batch.copy()
    word = int(np.flatnonzero(bursty[50])[0])
    bursty[50, word] += 2000
    found = search_in(bursty, normal).grow(Start(np.arange(6), 40))
    assert set(found.documents) == set(
        search_in(batch, normal).grow(Start(np.arange(6), 40)).documents
    )


def test_normal_documents_of_the_kind_take_support_away(planted):
    batch, normal = draw_planted()
    known = search_in(batch, np.vstack((normal, batch[:20])))
    judged = known.judge(np.arange(20))
    assert judged is None or judged.support < planted.judge(np.arange(20)).support - 20


def test_what_is_left_of_a_known_group_is_not_found_as_another():
    batch, normal = draw_planted(40)
    search = search_in(batch, normal)
    rest = search.without(np.arange(25))
    left = rest.judge(np.arange(25, 40))
    assert left.support > 20
    known = search.normal.with_known(search.batch.take(np.arange(25)), rest.n_docs)
    again = ContrastSearch(rest.batch, known, rest.available).judge(np.arange(25, 40))
    assert again is None or again.support < 5


def test_known_documents_on_another_subject_change_nothing():
    """Once a group is known, ordinary documents are no more in excess than they were before."""
    rng = np.random.default_rng(3)
    topics = np.kron(np.eye(4), rng.dirichlet(np.full(40, 0.3), 1))
    usual = np.stack([rng.multinomial(50, topics[d % 3]) for d in range(300)])
    kinds = [3] * 60 + [0] * 12 + [1] * 24 + [2] * 24
    batch = np.stack([rng.multinomial(50, topics[kind]) for kind in kinds])
    search = search_in(batch, usual)
    group, ordinary = np.arange(60), np.arange(72, 96)
    rest = search.without(group)
    known = search.normal.with_known(search.batch.take(group), rest.n_docs)
    beside = ContrastSearch(rest.batch, known, rest.available)
    for documents in (ordinary, np.arange(60, 72)):
        assert beside.judge(documents) == rest.judge(documents)
    n_with = search.batch.count_documents(rest.available)
    for mine, before in zip(
        beside._compare(n_with, rest.n_docs, 0.0),
        rest._compare(n_with, rest.n_docs, 0.0),
        strict=True,
    ):
        np.testing.assert_array_equal(mine[:120], before[:120])


def test_two_groups_are_parted(two_planted):
    both = two_planted.judge(np.arange(50))
    part = two_planted.part(both)
    assert set(part.documents) == set(range(20, 50))
    assert two_planted.part(part) == part


def test_one_group_is_not_parted(planted):
    whole = planted.judge(np.arange(20))
    assert planted.part(whole) == whole


def test_a_ranking_has_the_highest_scores_the_first_of_equals_first():
    documents, scores = np.array([4, 1, 9, 3, 7]), np.array([1.0, 2.0, 0.0, 2.0, -1.0])
    assert Ranking.of(documents, scores, 9).documents.tolist() == [1, 3, 4]
    parts = [Ranking.of(documents[:2], scores[:2], 2), Ranking.of(documents[2:], scores[2:], 2)]
    assert Ranking.merge(parts, 2).documents.tolist() == [1, 3]


@pytest.mark.parametrize("documents", [[], [5]])
def test_one_document_is_no_group(planted, documents):
    assert planted.judge(np.array(documents, dtype=np.int64)) is None


def test_empty_documents_are_in_no_group():
    batch, normal = draw_planted()
    batch[3] = 0
    search = search_in(batch, normal)
    assert search.grow(Start(np.array([3]), 40)) is None
    assert 3 not in search.grow(Start(np.arange(6), 40)).documents


def test_a_batch_of_two_documents_has_no_group():
    batch, normal = draw_planted()
    search = search_in(batch[:2], normal)
    assert search.grow(Start(np.array([0, 1]), 1)) is None
    assert search_in(batch[:0], normal).choose_starts(5) == []


def test_the_cut_counts_equal_scores_together():
    scores = np.array([3.0, 2.0, 2.0, 2.0, 1.0])
    size, _ = contrast._find_cut(
        scores, np.array([0.5]), np.zeros(0), 0.0, 10, 50.0, LEAST_DOCUMENTS, 3
    )
    assert size == 0  # three would cut through equals
