"""The false alarms of a series of sweeps: how many the user accepts, and the level of the next
sweep.

The level of a sweep depends only on earlier sweeps, which the state records. So a sweep that is
killed and started again is tested at the same level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from atd_dask.config.run_config import RunConfig, fingerprint
from atd_dask.json_records import JsonRecord
from atd_dask.kernels.alarm_levels import level_for_rate, level_for_share

# How many sweeps determine the pace, and how much faster than configured they may come.
LEAST_SWEEPS = 30
MOST_HASTE = 1.5
YEAR = 365.25 * 24 * 3600


@dataclass(frozen=True, kw_only=True)
class AlarmSeries(JsonRecord):
    """The sweeps tested since the user last changed how many false alarms to accept."""

    promise: str  # of the settings behind it; other settings start a new series
    tests: int = 0
    alarms: tuple[int, ...] = ()  # the tests that raised an alarm, from 1
    spent: float = 0.0  # the sum of all levels, a bound on the expected false alarms


def continue_series(config: RunConfig, before: AlarmSeries | None) -> AlarmSeries:
    """Return the series that the next sweep belongs to."""
    sweep = config.sweep
    level = config.detection.significance.level
    promise = fingerprint([fingerprint(sweep.false_alarms), sweep.window, level])
    if before is not None and before.promise == promise:
        return before
    return AlarmSeries(promise=promise)


def find_level(config: RunConfig, series: AlarmSeries) -> float:
    """Return the largest p-value that raises an alarm in the next sweep of a series."""
    asked = config.sweep.false_alarms
    if asked.per_year is not None:
        return level_for_rate(asked.per_year, asked.sweeps)
    if asked.share is not None:
        return level_for_share(asked.share, series.tests + 1, series.alarms, config.sweep.window)
    return config.detection.significance.level


def note_test(series: AlarmSeries, level: float, alarm: bool) -> AlarmSeries:
    """Return the series after a sweep that was tested at a level."""
    test = series.tests + 1
    return replace(
        series,
        tests=test,
        alarms=(*series.alarms, test) if alarm else series.alarms,
        spent=series.spent + level,
    )


def find_haste(config: RunConfig, started: Sequence[str]) -> str | None:
    """Return a sentence if the latest sweeps started much more often than the yearly rate assumes,
    otherwise None."""
    asked = config.sweep.false_alarms
    if asked.per_year is None or len(started) < LEAST_SWEEPS:
        return None
    first, last = (datetime.fromisoformat(started[place]) for place in (-LEAST_SWEEPS, -1))
    pace = (LEAST_SWEEPS - 1) * YEAR / max((last - first).total_seconds(), 1.0)
    if pace <= MOST_HASTE * asked.sweeps:
        return None
    return (
        f"sweeps are running at a rate of {pace:,.0f} a year, but sweep.false_alarms.sweeps is"
        f" {asked.sweeps:,}: correct it, or expect more false alarms than you accept"
    )


def say_promise(config: RunConfig) -> str:
    """Say how many false alarms the user accepts."""
    asked = config.sweep.false_alarms
    if asked.per_year is not None:
        return f"at most {asked.per_year:g} in a year of {asked.sweeps} sweeps"
    if asked.share is not None:
        return f"at most {asked.share:.0%} of all alarms"
    return f"in each sweep, with a probability of at most {config.detection.significance.level:g}"
