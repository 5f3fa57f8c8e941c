"""False alarms over many sweeps: the level of each depends on those before it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from atd_dask.config.loader import load
from atd_dask.config.run_config import RunConfig
from atd_dask.config.sweep_config import FalseAlarmsConfig, SweepConfig
from atd_dask.errors import ConfigError
from atd_dask.kernels.alarm_levels import level_for_share
from atd_dask.sweeps.alarm_series import (
    continue_series,
    find_haste,
    find_level,
    note_test,
    say_promise,
)
from atd_dask.sweeps.state import SweepState, read_state, write_state
from tests.pipelines.sweeping import prepare


def ask(**asked):
    return RunConfig(sweep=SweepConfig(window=3, false_alarms=FalseAlarmsConfig(**asked)))


def run_series(config, alarms, series=None):
    """The levels of sweeps that raise an alarm or not, and the series after them."""
    series = continue_series(config, series)
    levels = []
    for alarm in alarms:
        levels.append(find_level(config, series))
        series = note_test(series, levels[-1], alarm)
    return levels, series


def test_a_rate_is_the_same_for_every_sweep():
    levels, series = run_series(ask(per_year=2), [False, True, False])
    assert levels == [2 / 365] * 3
    assert (series.tests, series.alarms) == (3, (2,))
    assert series.spent == pytest.approx(6 / 365)
    assert run_series(ask(per_year=2, sweeps=8760), [False])[0] == [2 / 8760]


def test_a_share_follows_from_the_alarms():
    raised = [False, True, False, False, False, False, False]
    levels, _ = run_series(ask(share=0.1), raised)
    expected = [
        level_for_share(0.1, test, [2] if test > 2 else [], 3) for test in range(1, len(raised) + 1)
    ]
    assert levels == expected
    assert levels[5] > levels[4]


def test_without_a_promise_it_is_the_level_of_detection():
    assert run_series(ask(), [False])[0] == [0.01]


def test_another_promise_starts_a_new_series():
    _, series = run_series(ask(share=0.1), [True, False])
    assert continue_series(ask(share=0.1), series) is series
    assert continue_series(ask(share=0.2), series).tests == 0


def test_the_series_is_kept_in_the_state(tmp_path):
    _, series = run_series(ask(share=0.1), [True, False])
    write_state(str(tmp_path), SweepState(key="x", series=series))
    state = read_state(str(tmp_path))
    assert state is not None
    assert state.series == series
    # An earlier version had none.
    write_state(str(tmp_path), replace(state, series=None))
    assert read_state(str(tmp_path)) == replace(state, series=None)


def test_sweeps_that_come_faster_than_was_said():
    days = [f"2026-01-{day:02d}T00:00:00+00:00" for day in range(1, 32)]
    hours = [f"2026-01-{1 + n // 24:02d}T{n % 24:02d}:00:00+00:00" for n in range(40)]
    assert find_haste(ask(per_year=2), days) is None
    assert find_haste(ask(per_year=2), hours[:29]) is None
    assert find_haste(ask(per_year=2, sweeps=8760), hours) is None
    assert find_haste(ask(share=0.1), hours) is None
    told = find_haste(ask(per_year=2), hours)
    assert told is not None
    assert told.startswith("sweeps are running at a rate of 8,766 a year, but sweep.false_alarms")


def test_what_was_asked_for_in_words():
    assert say_promise(ask(per_year=2)) == "at most 2 in a year of 365 sweeps"
    assert say_promise(ask(share=0.1)) == "at most 10% of all alarms"
    assert say_promise(ask()) == "in each sweep, with a probability of at most 0.01"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["sweep.false_alarms={per_year: 2, share: 0.1}"], "must have per_year or share, got both"),
        (
            ["sweep.false_alarms={per_year: 2, sweeps: 2}"],
            r"sweep\.false_alarms\.per_year must be less than the sweeps of a year, got 2 and 2",
        ),
        (
            ["sweep.false_alarms.share=0.1", "detection.significance.searches=0"],
            r"needs detection\.significance\.searches of at least 1, got 0",
        ),
    ],
)
def test_what_cannot_be_promised_is_refused(tmp_path, given, sentence):
    prepare(tmp_path)
    with pytest.raises(ConfigError, match=sentence):
        load(tmp_path / "conf.yaml", given)
