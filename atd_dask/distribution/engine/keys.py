"""The keys of tasks, as shown on Dask's dashboard."""

from __future__ import annotations

import uuid


def task_key(name: str, *details: object) -> str:
    """Return a unique key. The dashboard groups tasks by `name`, words joined by hyphens, and shows
    the details of each."""
    return "-".join([name, *map(str, details), uuid.uuid4().hex])
