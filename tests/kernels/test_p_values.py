from __future__ import annotations

import numpy as np
import pytest

from atd_dask.kernels.p_values import combine_p_values, count_majority


def test_a_majority_is_more_than_half() -> None:
    assert [count_majority(n) for n in range(1, 7)] == [1, 2, 2, 3, 3, 4]


def test_a_single_p_value_stays() -> None:
    assert combine_p_values([0.03]) == 0.03


def test_the_order_does_not_matter_and_the_largest_is_one() -> None:
    assert combine_p_values([0.1, 0.3, 0.2]) == combine_p_values([0.3, 0.2, 0.1])
    assert combine_p_values([0.9, 1.0]) == 1.0


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("shared", [0.0, 0.5, 1.0])
def test_the_combination_is_a_p_value_whatever_the_dependence(n: int, shared: float) -> None:
    rng = np.random.default_rng(1)
    same = rng.random((20_000, 1)) < shared
    p_values = np.where(same, rng.random((20_000, 1)), rng.random((20_000, n)))
    combined = np.array([combine_p_values(row.tolist()) for row in p_values])
    for level in (0.01, 0.05, 0.2):
        assert (combined <= level).mean() <= level + 3 * np.sqrt(level / 20_000)
