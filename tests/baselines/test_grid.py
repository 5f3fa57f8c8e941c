"""The grid of hyperparameters."""

from __future__ import annotations

from atd_dask.baselines.grid import Grid, list_points

SMALL = Grid(topics=(5, 10), genres=(2,), nu=(0.1,), gamma=(10.0,), strength=(1.0,), clusters=(20,))


def test_a_point_follows_those_it_needs() -> None:
    seen = set()
    for point in list_points(SMALL, [1, 2]):
        assert seen.issuperset(point.needs)
        seen.add(point)


def test_points_have_names_of_their_own() -> None:
    points = list_points(SMALL, [1, 2])
    assert len({point.name for point in points}) == len(points)


def test_more_seeds_keep_the_points_of_fewer() -> None:
    assert set(list_points(SMALL, [1])) < set(list_points(SMALL, [1, 2]))
