from __future__ import annotations

import pytest

from atd_dask.report.dates import show_moment


@pytest.mark.parametrize(
    ("stamp", "shown"),
    [
        ("2026-11-17T09:14:54.399+00:00", "17 November 2026, 09:14 UTC"),
        ("2026-01-01T00:30:00+02:00", "31 December 2025, 22:30 UTC"),
        ("2026-05-02T03:04:05Z", "2 May 2026, 03:04 UTC"),
        ("2026-05-02T03:04:05", "2 May 2026, 03:04"),
        ("then", "then"),
        ("", ""),
        ("a\x1b[31m", "a\N{REPLACEMENT CHARACTER}[31m"),
        ("0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00+14:00"),  # before there is a calendar
    ],
)
def test_moments(stamp: str, shown: str) -> None:
    assert show_moment(stamp) == shown
