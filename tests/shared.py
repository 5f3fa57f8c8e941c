"""Corpora and recorded results that some tests compare with; they are not part of the project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SHARED = Path(
    os.environ.get("ATD_SHARED", Path(__file__).resolve().parent.parent.parent / "shared")
)


def shared(name: str) -> Path:
    """The path of `name` in the shared folder; skips the test if it is missing."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"needs {name} in the folder that ATD_SHARED names ({SHARED})")
    return path
