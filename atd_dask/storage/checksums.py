"""Checksums of files that cannot hold their own: they are listed next to them, in `SHA256SUMS`.

The format is that of `sha256sum`, so `sha256sum --check SHA256SUMS` works too. A file that is not
listed comes from an earlier version, and is not checked.
"""

from __future__ import annotations

import hashlib
import re

from atd_dask.errors import DamagedStoreError
from atd_dask.storage.atomic_files import join, read_file, write_file

NAME = "SHA256SUMS"

_LINE = re.compile(r"([0-9a-f]{64})  ([^/\n]+)")


def write_checked(path: str, content: bytes) -> None:
    """Write a file, and list its digest."""
    folder, _, name = path.rpartition("/")
    try:
        sums = read_sums(folder)
    except DamagedStoreError:
        sums = {}  # files that are not listed again are found damaged, and made again
    write_file(path, content)
    sums[name] = hashlib.sha256(content).hexdigest()
    lines = "".join(f"{digest}  {other}\n" for other, digest in sorted(sums.items()))
    write_file(join(folder, NAME), lines.encode())


def read_checked(path: str) -> bytes | None:
    """Return the bytes of a file, or None if there is no such file.

    Raises
    ------
    DamagedStoreError
        If they are not the ones that were written.
    """
    content = read_file(path)
    if content is None:
        return None
    folder, _, name = path.rpartition("/")
    digest = read_sums(folder).get(name)
    if digest is not None and digest != hashlib.sha256(content).hexdigest():
        raise DamagedStoreError(f"{path} is not as it was written")
    return content


def read_sums(folder: str) -> dict[str, str]:
    """Return the digest of each file that is listed."""
    content = read_file(join(folder, NAME))
    if content is None:
        return {}
    lines = content.decode("utf-8", "replace").split("\n")
    found = [_LINE.fullmatch(line) for line in lines[:-1]]
    if lines[-1] or not found or None in found:
        raise DamagedStoreError(f"{join(folder, NAME)} is not as it was written")
    return {match[2]: match[1] for match in found if match is not None}
