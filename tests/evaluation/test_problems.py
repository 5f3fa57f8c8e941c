"""Problems are drawn, not chosen: what is drawn is pinned, and keeps what it promises."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from atd_dask.errors import InputError
from atd_dask.evaluation.problem_documents import (
    BURSTY,
    COPIES,
    generate_pool,
    lay_out,
    make_documents,
)
from atd_dask.evaluation.problems import (
    HALVES,
    PLANS,
    SHORT_PLANS,
    Plan,
    Pool,
    list_null_splits,
    list_problems,
    make_plan,
)
from tests.kernels.strategies import make_block

PLAN = Plan(8, 4, (40, 120), sizes=(5, 10), extras=4, splits=4, nulls=((30, 4), (60, 2)))


@pytest.fixture(scope="module")
def pools():
    """Six classes over 600 documents, one of them inside another; counts tell documents apart."""
    labels = []
    for row in range(600):
        label = f"class-{row % 5}"
        labels.append((label, "inner") if row % 25 == 0 else (label,))
    counts = np.random.default_rng(1).poisson(0.5, (600, 30)) + np.eye(600, 30, dtype=int)
    return {"own": Pool(make_block(counts), labels, 30)}


@pytest.fixture(scope="module")
def problems(pools):
    return list_problems(1, pools, {"own": PLAN})


def digest_of(problems):
    return hashlib.sha256(" ".join(problem.digest for problem in problems).encode()).hexdigest()[
        :16
    ]


def test_what_is_drawn_is_pinned(pools, problems):
    assert digest_of(problems) == "ad38499fa6e0e549"
    assert digest_of(list_null_splits(1, pools, {"own": PLAN})) == "e0b0d7acdd86f25c"
    assert digest_of(list_problems(1, {})) == "7c6739e2ac972954"
    assert digest_of(list_problems(2, pools, {"own": PLAN})) != digest_of(problems)


def test_generated_documents_are_pinned():
    content = hashlib.sha256()
    for problem in list_problems(1, {}, SHORT_PLANS):
        documents = make_documents(problem, {})
        for corpus in documents.corpora().values():
            content.update(corpus.digest.encode())
        content.update(repr(documents.labels).encode())
    assert content.hexdigest()[:16] == "cd6582cdf84fb089"


def test_no_anomalous_document_is_outside_the_batch(pools, problems):
    labels = pools["own"].labels
    for problem in problems:
        for rows in (problem.train, problem.validation, problem.originals):
            assert not any(set(problem.anomalous) & set(labels[row]) for row in rows)
        found = Counter(
            label
            for row in problem.batches[0]
            for label in labels[row]
            if label in problem.anomalous
        )
        assert found == {group.label: group.size for group in problem.groups}
        for row in problem.batches[0]:
            assert len(set(problem.anomalous) & set(labels[row])) <= 1


def test_parts_are_disjoint_and_training_is_large_enough(pools, problems):
    splits = list_null_splits(1, pools, {"own": PLAN})
    assert len(problems) == 8
    for problem in [*problems, *splits]:
        parts = [problem.train, problem.validation, problem.originals, *problem.batches]
        rows = np.concatenate(parts)
        assert len(np.unique(rows)) == len(rows)
        assert len(problem.validation) >= 100
        assert len(problem.train) >= 2 * len(problem.batches[0])
    for problem in problems:
        assert 40 <= len(problem.batches[0]) <= 120
        assert len(problem.batches[0]) >= 3 * problem.n_planted
    assert [[len(rows) for rows in split.batches] for split in splits] == [
        *([30] * 4, [60] * 2),
        *([30] * 4, [60] * 2),
    ]
    assert all(len(split.groups) == 0 for split in splits)


def test_the_halves_have_as_much_of_each(problems):
    sizes = {
        half: Counter(g.size for p in problems if p.half == half for g in p.groups)
        for half in HALVES
    }
    assert sizes["choose"] == sizes["report"] == {5: 3, 10: 3}
    for half in HALVES:
        mine = [problem for problem in problems if problem.half == half]
        assert sum(len(problem.groups) == 2 for problem in mine) == 2
        assert sum(bool(problem.extras) for problem in mine) == 2


def test_the_benchmark_has_enough_of_everything():
    assert sum(plan.problems for plan in PLANS.values()) >= 64
    for plan in PLANS.values():
        assert plan.sizes == (10, 20, 40, 100)
        assert 0.25 <= plan.extras / plan.problems <= 0.4
        batches = [plan.nulls[number % 2][1] for number in range(plan.splits)]
        assert sum(batches) >= 100
    drawn = list_problems(1, {})
    assert {g.share for p in drawn for g in p.groups} == {0.2, 0.5, 1.0}
    assert {kind for problem in drawn for kind in problem.extras} == {"copies", "bursty"}


def test_the_order_of_a_batch_tells_nothing(problems):
    for problem in problems:
        places = np.flatnonzero(np.diff(problem.batches[0]) < 0)
        assert len(places) > len(problem.batches[0]) / 4


def test_the_documents_are_those_of_the_rows(pools, problems):
    problem = next(problem for problem in problems if not problem.extras)
    documents = make_documents(problem, pools)
    block = pools["own"].documents
    for part, rows in (
        ("train", problem.train),
        ("validation", problem.validation),
        ("test", problem.batches[0]),
    ):
        corpus = documents.corpora()[part]
        np.testing.assert_array_equal(corpus.whole.counts, block.take(rows).counts)
        np.testing.assert_array_equal(corpus.whole.terms, block.take(rows).terms)
    assert documents.labels[0] == [pools["own"].labels[row] for row in problem.batches[0]]


def test_extras_have_labels_of_their_own(pools, problems):
    for problem in problems:
        documents = lay_out(problem, pools)
        batch, labels = documents.batches[0], documents.labels[0]
        assert batch.n_docs == len(labels)
        assert batch.n_docs == len(problem.batches[0]) + problem.copies + len(problem.bursts)
        assert labels.count((COPIES,)) == problem.copies
        bursty = [row for row, label in enumerate(labels) if label == (BURSTY,)]
        most = [int(batch.rows(row, row + 1).counts.max()) for row in bursty]
        assert len(bursty) == len(problem.bursts)
        assert all(200 < n < 2100 for n in most)
        assert sorted(most) == pytest.approx(sorted(problem.bursts), abs=20)


def test_near_copies_share_most_tokens():
    problem = next(p for p in list_problems(1, {}) if p.copies)
    original = generate_pool(problem).documents.take(problem.originals[:1])
    usual = np.bincount(original.terms, original.counts, problem.shape.n_words)
    documents = lay_out(problem, {})
    copies = [row for row, label in enumerate(documents.labels[0]) if label == (COPIES,)]
    assert len(copies) == 5
    shared = []
    for row in copies:
        block = documents.batches[0].rows(row, row + 1)
        assert block.counts.sum() == usual.sum()
        mine = np.bincount(block.terms, block.counts, len(usual))
        shared.append(np.minimum(mine, usual).sum() / usual.sum())
    assert 0.88 < np.mean(shared) < 0.99
    assert min(shared) < 1


def test_one_document_stands_for_its_near_copies():
    problem = next(p for p in list_problems(1, {}) if p.copies)
    whole, without = lay_out(problem, {}), make_documents(problem, {})
    assert without.labels[0].count((COPIES,)) == 1
    assert without.batches[0].n_docs == len(without.labels[0]) == whole.batches[0].n_docs - 4
    assert without.train.n_docs == whole.train.n_docs


def test_a_generated_group_has_a_topic_of_its_own_on_its_share():
    """The words that the group has far more often than the others make up the share of the topic's
    own words, half of the topic."""
    seen = set()
    for problem in list_problems(1, {}):
        wanted = {group.share for group in problem.groups if group.size >= 40}
        if wanted <= seen:
            continue
        seen |= wanted
        pool = generate_pool(problem)
        counts = np.zeros((len(pool.labels), pool.n_words))
        rows = np.repeat(np.arange(len(pool.labels)), np.diff(pool.documents.indptr))
        counts[rows, pool.documents.terms] = pool.documents.counts
        normal = np.array([label[0].startswith("topic") for label in pool.labels])
        usual = counts[normal].sum(0) / counts[normal].sum()
        for group in problem.groups:
            if group.size < 40:
                continue
            mine = counts[[label == (group.label,) for label in pool.labels]]
            own = mine.sum(0) / mine.sum()
            excess = np.maximum(own - usual, 0)[own > 2 * usual].sum()
            assert excess == pytest.approx(0.5 * group.share, abs=0.2)
    assert seen == {0.2, 0.5, 1.0}


def test_lengths_of_generated_documents_vary():
    problem = list_problems(1, {})[0]
    lengths = make_documents(problem, {}).train.lengths()
    assert 55 <= np.median(lengths) <= 105
    assert 0.4 < np.std(np.log(lengths)) < 0.6
    assert lengths.min() >= 10


def test_the_documents_of_a_null_split(pools):
    for split in list_null_splits(1, {}, SHORT_PLANS) + list_null_splits(1, pools, {"own": PLAN}):
        documents = make_documents(split, pools)
        assert len(documents.batches) == len(split.batches) == len(documents.labels)
        assert not any(label[0].startswith("new") for some in documents.labels for label in some)


def test_a_digest_depends_on_the_pool_and_on_the_rows(pools):
    other = {"own": replace(pools["own"], n_words=31)}
    first, second = (list_problems(1, some, {"own": PLAN})[0] for some in (pools, other))
    np.testing.assert_array_equal(first.train, second.train)
    assert first.digest != second.digest
    assert replace(first, train=first.train[:-1]).digest != first.digest
    assert replace(first).digest == first.digest


def test_a_corpus_that_is_too_small_is_a_sentence(pools):
    few = replace(PLAN, sizes=(200,))
    with pytest.raises(InputError, match=r"a class with at least 200 documents beside others"):
        list_problems(1, pools, {"own": few})
    much = replace(PLAN, nulls=((200, 2),))
    with pytest.raises(InputError, match="training must have at least 400 documents"):
        list_null_splits(1, pools, {"own": much})


def test_a_plan_for_labelled_documents(pools):
    plan = make_plan(pools["own"], "own")
    assert plan.sizes == (10, 20, 40)
    drawn = list_problems(1, pools, {"own": plan})
    assert len(drawn) == plan.problems
    assert {group.size for problem in drawn for group in problem.groups} == set(plan.sizes)
    splits = list_null_splits(1, pools, {"own": plan})
    assert {len(batch) for split in splits for batch in split.batches} == {100}


def test_classes_that_leave_too_few_normal_documents_are_not_drawn(pools):
    whole = pools["own"]
    labels = [("most",) if row % 5 else ("few",) for row in range(600)]
    pool = Pool(whole.documents, labels, whole.n_words)
    drawn = list_problems(1, {"own": pool}, {"own": make_plan(pool, "own")})
    assert {problem.anomalous for problem in drawn} == {("few",)}


def test_documents_without_a_frequent_label_are_a_sentence(pools):
    whole = pools["own"]
    labels = [("rare",) if row < 9 else () for row in range(600)]
    with pytest.raises(InputError, match="a label that at least 10 documents carry"):
        make_plan(Pool(whole.documents, labels, whole.n_words), "own")
