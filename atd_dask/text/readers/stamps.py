"""Stamps of files, to tell whether a file has changed since it was read."""

from __future__ import annotations

import time
from pathlib import Path

from fsspec.implementations.local import LocalFileSystem

from atd_dask.text.readers.files import File, open_filesystem, readable

# A file that was changed just now may change again without a new modification time.
SETTLED = 2.0

# Properties of objects in object stores, any of which is enough besides the size.
_PROPERTIES = ("ETag", "etag", "md5Hash", "content_md5", "LastModified", "last_modified", "mtime")


def stamp_file(file: File) -> str | None:
    """Return a text that changes when the file does, or None if that is not reliable."""
    fs, path = open_filesystem(file.url)
    if isinstance(fs, LocalFileSystem):
        with readable(file.url):
            status = Path(file.url).stat()
        if time.time() - status.st_mtime < SETTLED:
            return None
        return f"{status.st_size} {status.st_mtime_ns} {status.st_ino}"
    with readable(file.url):
        info = fs.info(path)
    told = [f"{name}={info[name]}" for name in _PROPERTIES if info.get(name)]
    return " ".join([str(info.get("size")), *told]) if told else None


def forget_listings(path: str) -> None:
    """Drop cached listings of the file system."""
    open_filesystem(path)[0].invalidate_cache()
