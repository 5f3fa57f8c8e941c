"""Single files of an output folder, local or behind an fsspec URL, written atomically."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from atd_dask.storage.locations import Location, name_location


def join(base: str, *names: str) -> str:
    """Return the path or URL of something below `base`."""
    return "/".join((base.rstrip("/"), *names))


def write_file(url: str, content: bytes) -> None:
    """Write a file atomically: until it is complete, an older one stays."""
    location = Location.of(url)
    if not location.local:
        folder, _, name = location.url.rpartition("/")
        Location(folder, local=False).write(name, content)
        return
    target = Path(location.url)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.partial-{secrets.token_hex(8)}")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    except BaseException as error:
        name_location(error, location.url)
        with contextlib.suppress(OSError):
            partial.unlink()
        raise


def read_file(url: str) -> bytes | None:
    """Return the bytes of a file, or None if there is no such file."""
    location = Location.of(url)
    folder, _, name = location.url.rpartition("/")
    return Location(folder, location.local).read(name)
