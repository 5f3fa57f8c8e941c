from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atd_dask.kernels import word_sweeps
from atd_dask.kernels.word_sweeps import Chosen, Window
from tests import naive
from tests.kernels.compiled import callable_kernel
from tests.kernels.strategies import word_counts

switch_gain = callable_kernel(word_sweeps.switch_gain)
gain_limit = callable_kernel(word_sweeps.gain_limit)
is_far = callable_kernel(word_sweeps.is_far)
is_within = callable_kernel(word_sweeps.is_within)
stays_off = callable_kernel(word_sweeps.stays_off)
stays_on = callable_kernel(word_sweeps.stays_on)
is_firm_by_log = callable_kernel(word_sweeps.is_firm_by_log)


@given(word_counts(), st.integers(0, 1000))
def test_change_of_a_word_switch_is_the_difference_of_two_evaluations(case, pick):
    x, shared, u, tokens = case
    j, n = divmod(pick % x.size, x.shape[1])
    flipped = u.copy()
    flipped[j, n] = not u[j, n]
    if flipped[j].sum() < 2 or u[j].sum() < 2 or x[j, u[j] & flipped[j]].sum() == 0:
        return
    others = u[j] & flipped[j]
    gain = switch_gain(
        x[j, n], shared.probabilities[n], x[j, others].sum(), shared.probabilities[others].sum()
    )
    places = u.size
    on = max(u.sum(), flipped.sum())
    price = (
        0.5 * np.log(tokens[j] / (2 * np.pi))
        + word_sweeps.entropy_cost(on, places)
        - word_sweeps.entropy_cost(on - 1, places)
    )
    change = price - gain if flipped[j, n] else gain - price
    before = naive.expected_bic(x, u, shared.probabilities, tokens)
    after = naive.expected_bic(x, flipped, shared.probabilities, tokens)
    assert change == pytest.approx(after - before, rel=1e-8, abs=1e-8 * abs(before))


@given(word_counts())
def test_limit_is_above_the_gain(case):
    x, shared, u, _ = case
    for j in range(len(x)):
        for n in range(x.shape[1]):
            others = u[j] & (np.arange(x.shape[1]) != n)
            mass, rest = x[j, others].sum(), shared.probabilities[others].sum()
            if mass > 0:
                arguments = (x[j, n], shared.probabilities[n], mass, rest)
                assert switch_gain(*arguments) <= gain_limit(*arguments) + 1e-9


@given(word_counts(), st.floats(0.1, 20))
def test_words_that_are_far_from_changing_do_not_change(case, cost):
    x, shared, u, _ = case
    for j in range(len(x)):
        mass, base = x[j, u[j]].sum(), shared.probabilities[u[j]].sum()
        for n in range(x.shape[1]):
            mine, probability = x[j, n], shared.probabilities[n]
            if not is_far(u[j, n], mine, probability * mass / base, cost, cost):
                continue
            if not u[j, n]:
                assert switch_gain(mine, probability, mass, base) <= cost
            elif mass > mine and base > probability:
                gain = switch_gain(mine, probability, mass - mine, base - probability)
                assert gain >= cost


@given(word_counts(), st.floats(0.1, 20), st.floats(-1, 1), st.floats(-1, 1))
def test_firm_switches_stay_far_from_changing_everywhere_in_a_window(case, cost, move, rise):
    x, shared, u, _ = case
    mass, base = x[0, u[0]].sum(), shared.probabilities[u[0]].sum()
    ratio = mass / base
    window = Window(ratio, float(np.log(ratio)), cost - 0.1, cost + 0.1)
    moved = base * ratio * word_sweeps.WINDOW_RATIO**move
    costs = cost + 0.1 * rise, cost + 0.1 * rise
    chosen = Chosen(moved, base, 2, 2, 0.0, 0.0, 0.0, *costs)
    assert is_within(chosen, window) or abs(move) > 0.999 or abs(rise) > 0.999
    for on, mine, probability in zip(u[0], x[0], shared.probabilities, strict=True):
        if mine == 0:
            continue
        log = float(np.log(mine / probability))
        by_log = is_firm_by_log(on, mine, probability, log, window)
        assert by_log or not (stays_on if on else stays_off)(mine, probability, window)
        expected = probability * moved / base
        bound = mine * np.log(mine / expected) - mine + expected
        if by_log and on:
            assert bound >= costs[1]
        elif by_log:
            assert bound <= costs[0]


@pytest.mark.parametrize(("move", "within"), [(1.0, True), (1.09, True), (1.11, False)])
@pytest.mark.parametrize("way", [-1, 1])
def test_window_ends_where_the_ratio_has_moved_too_far(move, within, way):
    window = Window(2.0, float(np.log(2.0)), 5.0, 6.0)
    assert is_within(Chosen(2.0 * move**way, 1.0, 2, 2, 0.0, 0.0, 0.0, 5.0, 6.0), window) is within


@pytest.mark.parametrize("costs", [(4.9, 6.0), (5.0, 6.1)])
def test_window_ends_where_the_costs_have_moved_too_far(costs):
    window = Window(2.0, float(np.log(2.0)), 5.0, 6.0)
    assert not is_within(Chosen(2.0, 1.0, 2, 2, 0.0, 0.0, 0.0, *costs), window)
