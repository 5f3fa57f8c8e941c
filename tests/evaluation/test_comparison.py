from __future__ import annotations

import numpy as np
import pytest

from atd_dask.evaluation.comparison import (
    Spread,
    Task,
    best_place,
    judge_documents,
    judge_groups,
    rank_rows,
)
from atd_dask.result_types import Agreement

LABELS = [(), ("a",), (), ("b",), ("a", "c"), ()]
SCORES = np.array([0.1, 0.9, 0.2, 0.5, 0.8, 0.7])


def task(n_groups=2, n_documents=3):
    return Task(LABELS, ("a", "b"), n_groups, n_documents)


def test_equal_scores_stand_in_their_order():
    assert rank_rows(np.array([1.0, 2.0, 1.0, 2.0])).tolist() == [1, 3, 0, 2]


def test_as_many_documents_as_may_be_named():
    found = judge_documents(task(), SCORES)
    assert (found.recall, found.precision) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    assert judge_documents(task(n_documents=2), SCORES).precision == 1
    assert judge_documents(task(n_documents=100), SCORES).recall == 1


def test_groups_of_largest_mean():
    groups = np.array([2, 0, 2, 2, 0, 0])
    # Group 0 has rows 1, 4 and 5; group 2 has b beside two normal ones; group 1 is empty.
    found = judge_groups(task(), SCORES, SCORES, False, groups)
    first = Agreement(1.0, 2 / 3, 0.8, 0.5)
    assert found.whole.recall == pytest.approx((first.recall + 1) / 2)
    assert found.whole.f1 == pytest.approx((first.f1 + 0.5) / 2)
    assert found.whole.auc == pytest.approx(first.auc / 2)
    assert judge_groups(task(1), SCORES, SCORES, False, groups).whole == pytest.approx(first)


def test_counted_weights_make_the_larger_group_the_first():
    groups = np.array([0, 1, 0, 0, 1, 0])
    weights = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    counted = judge_groups(task(1), SCORES, weights, True, groups).whole
    assert (counted.recall, counted.precision) == (1.0, 0.25)  # b, of four
    weights[0] = 0.5
    assert judge_groups(task(1), SCORES, weights, False, groups).whole.precision == 1.0


def test_what_earlier_groups_took_is_not_missed():
    groups = np.array([1, 0, 1, 1, 1, 0])
    found = judge_groups(task(), SCORES, SCORES, False, groups)
    assert found.whole.recall == pytest.approx(0.5)  # an a in each
    assert found.remaining.recall == pytest.approx(0.75)


def test_the_order_of_the_batch_is_another():
    groups = np.zeros(6, np.int64)
    found = judge_groups(task(1), SCORES, SCORES, False, groups)
    assert found.whole.auc > found.unsorted.auc > 0
    assert found.whole.f1 == found.unsorted.f1


def test_a_group_without_anomalies_counts_as_nothing():
    found = judge_groups(task(1), SCORES, -SCORES, False, np.array([0, 1, 0, 1, 1, 1]))
    assert found.whole == found.remaining == found.unsorted == Agreement(0, 0, 0, 0)


def test_the_best_setting():
    a, b = Agreement(0, 0, 0.5, 0.1), Agreement(0, 0, 0.5, 0.2)
    assert best_place([a, b, a, b]) == 1
    assert best_place([a, Agreement(1, 1, 0.6, 0.0)]) == 1


def test_a_spread():
    assert Spread.of([0.5, 1.0]).show() == "0.75 (0.50 to 1.00)"
    assert Spread.of([0.301, 0.302]).show() == "0.30"
    assert Spread.of([1200]).show(0) == "1,200"
