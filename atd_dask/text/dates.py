"""The date of a document: a moment, as seconds since 1970 in UTC."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime

# The years that a calendar of Python's has.
_FIRST = int(datetime(1, 1, 1, tzinfo=UTC).timestamp())
_LAST = int(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp())


def read_date(value: object) -> int | None:
    """Return the moment that a field value denotes, or None if it denotes none.

    Text is as in ISO 8601, such as 2026-11-17 or 2026-11-17T08:30:00+01:00; a number is seconds
    since 1970. A moment without a time zone is taken as UTC, a day as its beginning.

    Examples
    --------
    >>> read_date("1970-01-02"), read_date("1970-01-01T01:00:00+01:00"), read_date("soon")
    (86400, 0, None)
    """
    if isinstance(value, str):
        text = value.strip()
        try:
            value = datetime.fromisoformat(text)
        except ValueError:
            try:
                value = float(text)
            except ValueError:
                return None
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return math.floor(moment.timestamp())
    if isinstance(value, date):
        return int(datetime(value.year, value.month, value.day, tzinfo=UTC).timestamp())
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        seconds = math.floor(value)
        return seconds if _FIRST <= seconds <= _LAST else None
    return None
