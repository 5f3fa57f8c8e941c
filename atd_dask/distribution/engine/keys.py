"""Names of tasks, as people read them on Dask's dashboard."""

from __future__ import annotations

import uuid


def task_key(name: str, *details: object) -> str:
    """A key that no other task has. The dashboard puts tasks of one `name` together, and shows the
    details of each; a name is words with hyphens."""
    return "-".join([name, *map(str, details), uuid.uuid4().hex])
