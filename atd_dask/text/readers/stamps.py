"""Whether a file is still the one that was read: its size, its date and what else is known."""

from __future__ import annotations

import time
from pathlib import Path

from fsspec.implementations.local import LocalFileSystem

from atd_dask.text.readers.files import File, open_filesystem, readable

# A file that was changed a moment ago may be changed again without a new date.
SETTLED = 2.0

# What object stores say of an object, besides its size; any of these is enough.
_PROPERTIES = ("ETag", "etag", "md5Hash", "content_md5", "LastModified", "last_modified", "mtime")


def stamp_file(file: File) -> str | None:
    """Text that changes when the file does; None where that cannot be relied on."""
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
    """Looks afresh at what is there; some file systems remember what they listed."""
    open_filesystem(path)[0].invalidate_cache()
