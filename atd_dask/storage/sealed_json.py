"""JSON files that carry a digest of what they say, so that a changed byte is noticed.

The digest is inside, under `sha256`, so both are replaced together. A file of an earlier version
has none, and is taken as it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from atd_dask.errors import DamagedStoreError
from atd_dask.storage.atomic_files import read_file, write_file

DIGEST = "sha256"


def write_sealed(path: str, value: Mapping[str, Any], *, ascii_only: bool = True) -> None:
    """Writes a JSON object with its digest."""
    plain = json.loads(json.dumps(value, allow_nan=False, default=str))
    sealed = {**plain, DIGEST: _digest(plain)}
    content = json.dumps(sealed, indent=1, ensure_ascii=ascii_only)
    write_file(path, content.encode() + b"\n")


def read_sealed(path: str) -> dict[str, Any] | None:
    """The object in a file without its digest, or None where there is no file.

    Raises
    ------
    DamagedStoreError
        If the file is not as it was written.
    """
    content = read_file(path)
    if content is None:
        return None
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise DamagedStoreError(f"{path} is not as it was written")
    digest = value.pop(DIGEST, None)
    if digest is not None and digest != _digest(value):
        raise DamagedStoreError(f"{path} is not as it was written")
    return value


def _digest(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
