"""JSON files that carry a digest of their content, so that a changed byte is noticed.

The digest is inside, on the first line, so both are replaced together. A file of an earlier version
has a bare bracket there, and is not checked.
"""

from __future__ import annotations

import hashlib
import json

from atd_dask.errors import DamagedStoreError
from atd_dask.json_records import JsonObject
from atd_dask.storage.atomic_files import read_file, write_file

DIGEST = "sha256"
UNSEALED = b"{\n"


def write_sealed(path: str, value: JsonObject, *, ascii_only: bool = True) -> None:
    """Write a JSON object with its digest."""
    plain = json.loads(json.dumps(value, allow_nan=False, default=str))
    text = json.dumps(plain, indent=1, ensure_ascii=ascii_only).removeprefix("{")
    content = f'{{"{DIGEST}": "{_digest(plain)}",{text}\n'
    write_file(path, content.encode())


def read_sealed(path: str) -> JsonObject | None:
    """Return the object in a file without its digest, or None if there is no file.

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
    is_old = content.startswith(UNSEALED) and DIGEST not in value
    if not is_old and value.pop(DIGEST, None) != _digest(value):
        raise DamagedStoreError(f"{path} is not as it was written")
    return value


def _digest(value: JsonObject) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
