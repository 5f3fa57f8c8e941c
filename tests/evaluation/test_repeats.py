"""Repeats of a detection become one result."""

from __future__ import annotations

import numpy as np
import pytest

from atd_dask.evaluation.repeats import combine_results
from atd_dask.kernels.p_values import combine_p_values, count_majority
from tests.results import make_result

LEVEL = 0.01


def make_candidate(rows, p_value, support=None, level=LEVEL, **others):
    return {
        "index": 0,
        "significant": p_value <= level,
        "support": support,
        "search_p_value": p_value,
        "p_value": 0.5,
        "documents": [{"row": row} for row in rows],
        **others,
    }


def combine(*repeats, level=LEVEL, copies=()):
    results = [
        make_result(
            null_model={"n_topics": 20 + n, "bic": -1.5 * n}, clusters=candidates, copies=copies
        )
        for n, candidates in enumerate(repeats)
    ]
    return combine_results(results, range(7, 7 + len(results)), level)


@pytest.mark.parametrize(
    ("p_values", "combined"),
    [
        ([0.003], 0.003),
        ([0.004, 0.001], 0.004),  # both must agree
        ([0.004, 1.0, 0.002], 1.5 * 0.004),
        ([0.1, 0.2, 0.3, 0.4], 4 / 3 * 0.3),
        ([1.0, 0.006, 0.001, 1.0, 0.003], 5 / 3 * 0.006),
        ([0.9, 0.9, 0.9], 1.0),
    ],
)
def test_the_p_value_that_more_than_half_reach(p_values, combined):
    assert combine_p_values(p_values) == pytest.approx(combined, rel=1e-15)
    assert combine_p_values(p_values[::-1]) == combine_p_values(p_values)


def draw_equal(rng, n, level):
    return np.full(n, rng.random())


def draw_independent(rng, n, level):
    return rng.random(n)


def draw_worst(rng, n, level):
    """Uniform p-values that are small together, in exactly as many repeats as needed."""
    majority = count_majority(n)
    limit = level * majority / n
    p_values = rng.uniform(limit, 1, n)
    if rng.random() < level:
        p_values[rng.permutation(n)[:majority]] = rng.uniform(0, limit, majority)
    return p_values


@pytest.mark.parametrize("draw", [draw_equal, draw_independent, draw_worst])
@pytest.mark.parametrize("n", [2, 3, 5])
def test_alarms_where_there_is_nothing_to_find(draw, n):
    """No more than one detection raises, however repeats depend on each other, and whether or not
    they have the same candidates; in the worst case just as many."""
    level, n_batches = 0.2, 1000
    rng = np.random.default_rng(5)
    alarms = 0
    for _ in range(n_batches):
        repeats = [
            [
                make_candidate(range(4 * place, 4 * place + 4), p_value, level=level),
                make_candidate(range(20, 26), (1 + p_value) / 2, level=level),
            ]
            for p_value, place in zip(draw(rng, n, level), rng.random(n) < 0.05, strict=True)
        ]
        found = combine(*repeats, level=level).clusters
        alarms += any(cluster.significant for cluster in found)
    assert alarms / n_batches <= level + 0.02  # more than one and a half standard deviations


def test_a_cluster_that_comes_back_in_most_repeats():
    result = combine(
        [make_candidate([1, 2, 3, 4], 0.001)],
        [make_candidate([2, 3, 4, 9], 0.004), make_candidate([20, 21, 22], 0.3)],
        [make_candidate([5, 6, 7, 1], 0.002), make_candidate([20, 21, 22], 0.3)],
    )
    (cluster,) = result.clusters[:1]
    assert list(cluster.rows) == [1, 2, 3, 4]
    assert (cluster.index, cluster.significant) == (1, True)
    assert cluster.repeats.to_json() == {
        "found": 2,
        "of": 3,
        "p_value": pytest.approx(0.006),
        "p_values": [0.001, 0.004, None],
        "shown": 1,
    }
    assert result.name == "a batch"
    assert result.repeats.n == 3
    assert result.repeats.null_models[2].to_json() == {
        "repeat": 3,
        "seed": 9,
        "n_topics": 22,
        "bic": -3.0,
        "clusters": 1,
    }


def test_what_others_find_is_not_lost():
    """Neither a cluster that the first repeat lacks, nor one that too few repeats have."""
    result = combine(
        [make_candidate([1, 2, 3], 0.001), make_candidate([20, 21, 22, 23], 0.04, support=5.0)],
        [make_candidate([40, 41, 42], 0.001), make_candidate([20, 21, 22], 0.002)],
        [make_candidate([60, 61, 62], 0.009, support=9.0), make_candidate([40, 41, 42], 0.005)],
        [make_candidate([80, 81, 82], 0.5), make_candidate([40, 41], 0.001)],
        [make_candidate([40, 41, 43], 0.03)],
    )
    told = [(list(c.rows), c.significant, c.repeats.found) for c in result.clusters]
    assert told == [
        ([40, 41, 42], True, 3),
        ([60, 61, 62], False, 1),
        ([1, 2, 3], False, 1),
        ([20, 21, 22], False, 1),  # as the repeat has it that found it
    ]
    assert [cluster.repeats.shown for cluster in result.clusters] == [2, 3, 1, 2]
    assert [cluster.index for cluster in result.clusters] == [1, 2, 3, 4]
    assert result.clusters[3].repeats.p_values == (0.04, 0.002, None, None, None)


def test_what_is_left_of_a_cluster_does_not_pass_for_all_of_it():
    whole = make_candidate(range(20), 0.001)
    rest = make_candidate([18, 19, 30], 0.9)
    result = combine([make_candidate(range(18), 0.001), rest], [whole], [whole])
    told = [(c.significant, c.repeats.p_values) for c in result.clusters]
    assert told == [(True, (0.001, 0.001, 0.001)), (False, (0.9, None, None))]
    # Nor does it where it is significant itself.
    result = combine([make_candidate(range(18), 0.001), rest | {"significant": True}], [whole])
    assert [c.repeats.found for c in result.clusters] == [2, 1]


def test_found_by_most_is_not_enough_where_p_values_are_near_the_level():
    (cluster,) = combine(*[[make_candidate([1, 2], 0.009)]] * 3).clusters
    assert (cluster.repeats.found, cluster.significant) == (3, False)
    assert cluster.repeats.p_value == pytest.approx(0.0135)


def test_without_searches_the_bootstrap_decides():
    candidate = make_candidate([1, 2], 0.001) | {"search_p_value": None, "p_value": 0.002}
    (cluster,) = combine([candidate], [candidate], []).clusters
    assert cluster.repeats.p_values == (0.002, 0.002, None)
    assert cluster.significant


def test_candidates_that_no_repeat_found_are_those_of_the_first():
    result = combine(
        [make_candidate([1, 2], 0.5, support=1.0), make_candidate([3, 4], 0.4, support=2.0)],
        [make_candidate([5, 6], 0.3, support=3.0)],
    )
    assert [list(cluster.rows) for cluster in result.clusters] == [[3, 4], [1, 2]]


def test_groups_of_copies_belong_to_clusters_as_they_are_judged():
    groups = [{"documents": [{"row": row}], "cluster": 1} for row in (1, 40, 70)]
    first = [make_candidate([1, 2], 0.001)]
    others = [make_candidate([40, 41], 0.001)]
    result = combine(first, others, others, copies=groups)
    assert [group.cluster for group in result.copies] == [None, 1, None]
    assert [group["cluster"] for group in groups] == [1, 1, 1]
