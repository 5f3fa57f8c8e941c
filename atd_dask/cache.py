"""The cache folder: downloaded data and compiled code, all of which can be made again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return `ATD_DASK_CACHE` if it is set, or else `atd-dask` in the user's cache folder."""
    if given := os.environ.get("ATD_DASK_CACHE"):
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "atd-dask"
