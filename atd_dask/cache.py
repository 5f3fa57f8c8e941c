"""Where this package keeps what can be had again: data that was fetched, code that was compiled."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """`ATD_DASK_CACHE`, or `atd-dask` in the user's cache folder."""
    if given := os.environ.get("ATD_DASK_CACHE"):
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "atd-dask"
