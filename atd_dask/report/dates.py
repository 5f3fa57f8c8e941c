"""Formats times for people: `17 November 2026, 09:14 UTC`."""

from __future__ import annotations

from datetime import UTC, datetime

from atd_dask.wording import clean

# Not from the locale: the page is in English everywhere.
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)


def show_moment(stamp: str) -> str:
    """Format an ISO timestamp to the minute, in UTC if it has an offset. Other text is returned
    unchanged."""
    try:
        moment = datetime.fromisoformat(stamp)
        aware = moment.tzinfo is not None
        moment = moment.astimezone(UTC) if aware else moment
    except (ValueError, OverflowError):
        return clean(stamp)
    zone = " UTC" if aware else ""
    return f"{moment.day} {MONTHS[moment.month - 1]} {moment.year}, {moment:%H:%M}{zone}"
