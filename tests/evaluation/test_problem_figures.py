from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from atd_dask.evaluation.problem_figures import (
    Candidate,
    FalseClusters,
    JudgedGroups,
    count_seeds,
    describe_problem,
    find_p_value,
    judge_candidate,
    judge_groups,
    judge_null,
    judge_ranking,
    judge_run,
    judge_searches,
    sum_up,
    sum_up_nulls,
)
from atd_dask.evaluation.problem_tables import draw_p_values, write_candidates, write_tables
from atd_dask.evaluation.problems import Group, Problem


def make_problem(*groups, name="reuters-choose-01", **others):
    rows = np.arange(100)
    return Problem(
        name, "choose", "reuters", 1, groups, rows, rows, (rows[:40], rows[40:80]), rows, **others
    )


def make_candidate(*labels, significant=True, by_search=0.05, support=10.0):
    return Candidate(
        labels=labels,
        significant=significant,
        p_value=0.005,
        search_p_value=by_search,
        support=support,
        gain=31.5,
    )


PLANTED = make_problem(Group("wheat", 10), Group("coffee", 20))
SIZES = {"wheat": 10, "coffee": 20}


def test_a_class_is_found_by_the_first_significant_cluster_that_is_mostly_of_it():
    run = judge_run(
        SIZES,
        3,
        [
            make_candidate(*["grain wheat"] * 5, "grain", "earn"),
            make_candidate(*["wheat"] * 3, significant=True),
            make_candidate(*["coffee"] * 12, significant=False),
        ],
    )
    assert run.seed == 3
    assert list(run.found) == ["wheat"]
    recall, precision = 5 / 10, 5 / 7
    f1 = 2 * recall * precision / (recall + precision)
    assert run.found["wheat"].f1 == pytest.approx(f1)
    assert run.false == FalseClusters()
    assert [one.majority for one in run.candidates] == ["wheat", "wheat", "coffee"]
    assert run.candidates[2].f1 is None
    assert "f1" not in run.candidates[2].to_json()


def test_a_half_is_no_majority():
    run = judge_run(SIZES, 1, [make_candidate("wheat", "wheat", "earn", "trade")])
    assert run.found == {}
    assert run.false.all == 1


def test_junk_is_false_and_counted_apart():
    run = judge_run(
        SIZES,
        1,
        [
            make_candidate(*["+copies"] * 5, "earn"),
            make_candidate("+bursty", "+bursty", "earn"),
            make_candidate("+bursty", "earn", "earn"),
            make_candidate(*["+copies"] * 5, significant=False),
        ],
    )
    assert run.false == FalseClusters(all=3, copies=1, bursty=1)
    assert run.candidates[0].majority == "+copies"


def test_of_equal_labels_the_first_in_the_alphabet_is_named():
    assert judge_candidate(make_candidate("b", "a", "b", "a"), ()).majority == "a"
    none = judge_candidate(make_candidate("", ""), ())
    assert (none.majority, none.of_it) == ("", 0)


def test_the_p_value_of_a_batch_is_that_of_its_best_candidate():
    assert find_p_value([]) == 1.0
    first, second = make_candidate("a", by_search=0.3), make_candidate("a", by_search=0.1)
    assert find_p_value([first, second]) == 0.1
    assert find_p_value([make_candidate("a", by_search=None)]) == 0.005


def test_figures_over_runs():
    hit = make_candidate(*["wheat"] * 10)
    runs = [
        judge_run(SIZES, 1, [hit, make_candidate("earn")]),
        judge_run(SIZES, 2, [make_candidate("earn", significant=False)]),
    ]
    rows = [replace(describe_problem(PLANTED), runs=tuple(runs))]
    row = sum_up(rows)
    assert (row.groups, row.found, row.runs, row.false.all) == (4, 1, 2, 1)
    assert row.f1 == 1.0
    some = sum_up(rows, 20)
    assert (some.groups, some.found, some.f1, some.auc) == (2, 0, None, None)
    assert sum_up(rows, 40) is None
    assert count_seeds(rows) == {1: 1, 0: 1}


def test_figures_of_nulls():
    split = make_problem(name="reuters-null-choose-01")
    nulls = [
        judge_null(split, 0, [make_candidate("a", by_search=0.05)]),
        judge_null(split, 1, [make_candidate("a", significant=False, by_search=0.2)]),
    ]
    row = sum_up_nulls(nulls)
    assert (row.batches, row.splits) == (2, 1)
    assert [rate.happened for rate in (row.alarms, *row.small)] == [1, 1, 2]


def test_the_tables():
    runs = [judge_run(SIZES, seed, [make_candidate(*["wheat"] * 10)]) for seed in (1, 2)]
    rows = [replace(describe_problem(PLANTED), runs=tuple(runs))]
    seconds = {
        "reuters-choose-01 1": {"training": 10.0, "detection": 2.0},
        "reuters-choose-01 2": {"training": 20.0, "detection": 3.0},
    }
    split = make_problem(name="reuters-null-choose-01")
    nulls = [judge_null(split, 0, [])]
    searches = [judge_searches(split, [15.0, 16.0, 17.0, 60.0])]
    text = write_tables(rows, nulls, searches, seconds)
    figures = "| 2 | 4 | 2 | 50% | 1.00 | 0.90 | 0 | 0.00 | 0 | 0 | 15.0 | 2.5 |"
    assert f"| choose | reuters {figures}" in text
    assert "| choose | groups of 20 |  | 2 | 0 | 0% |" in text
    assert "| choose | reuters | 2 of 2 | 0 of 2 |" in text
    assert "| choose | 1 | 0 | 1 | 2 of 2 |" in text
    assert "| choose | reuters, 40 | 1 | 1 | 0: 0.000 (0.000 to 0.975) |" in text
    assert "| reuters | 4 | 1: 0.2500 | 1: 0.2500 | 1: 0.2500 | 1: 0.2500 | 1: 0.2500 |" in text
    listed = write_candidates(rows, nulls)
    planted = "10 wheat, 20 coffee"
    assert (
        f"| reuters-choose-01 | 1 | 40 | {planted} | 1 | 10 | 10 wheat | 10.0 | 0.050 | 31.5 |"
        " 0.005 | yes | 1.00 |"
    ) in listed
    assert "| reuters-null-choose-01 | 1 | 1: 40 | nothing | none |" in listed
    for table in (text, listed):
        for block in table.split("\n\n"):
            lines = [line for line in block.splitlines() if line.startswith("|")]
            assert len({line.count("|") for line in lines}) <= 1


def test_a_histogram_of_p_values():
    drawn = draw_p_values([0.0, 0.05, 0.31, 1.0]).splitlines()
    assert drawn[2] == f"| 0.0 to 0.1 | 2 | {'█' * 40} |"
    assert drawn[5] == f"| 0.3 to 0.4 | 1 | {'█' * 20} |"
    assert drawn[-1] == f"| 0.9 to 1.0 | 1 | {'█' * 20} |"
    assert len(drawn) == 12


def test_a_ranking_is_cut_at_the_number_of_planted_documents():
    labels = [("wheat",), ("earn",), ("coffee", "earn"), ("trade",), ("wheat",)]
    judged = judge_ranking(np.array([0, 1, 4, 2, 3]), labels, ("wheat", "coffee"))
    assert judged.f1 == pytest.approx(2 / 3)
    all_of_them = judge_ranking(np.array([4, 2, 0, 1, 3]), labels, ("wheat", "coffee"))
    assert all_of_them.f1 == 1.0


def test_groups_are_cut_at_the_number_of_planted_classes():
    labels = [("wheat",), ("earn",), ("coffee", "earn"), ("trade",), ("wheat",)]
    groups = [np.array([1, 3]), np.array([0, 4, 2]), np.array([2])]
    judged = judge_groups(groups, labels, {"wheat": 2, "coffee": 1})
    assert list(judged.found) == ["wheat"]
    assert judged.found["wheat"].f1 == pytest.approx(0.8)
    assert judged.false == 1
    assert judge_groups([], labels, {"wheat": 2}) == JudgedGroups({}, 0)


def test_documents_of_all_significant_clusters_count_against_all_planted_ones():
    run = judge_run(
        SIZES,
        1,
        [
            make_candidate(*["wheat"] * 8, "earn", "earn"),
            make_candidate(*["coffee"] * 20, significant=False),
            make_candidate(*["coffee"] * 10),
        ],
    )
    recall, precision = 18 / 30, 18 / 20
    assert run.individual.f1 == pytest.approx(2 * recall * precision / (recall + precision))
