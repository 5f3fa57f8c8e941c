"""What files contain, known by a hash that is computed where and when they are read.

A file is hashed in leaves of a fixed length. So several processes can each hash the part of it that
they read, and the hash does not depend on how it was divided among them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

LEAF = 2**20  # bytes


@dataclass(frozen=True, slots=True)
class Content:
    """What is in some bytes of a file, which begin with a leaf: the SHA-256 of each leaf."""

    size: int
    n_lines: int
    leaves: bytes


class ContentReader:
    """Sees bytes in order, in blocks of any size."""

    def __init__(self) -> None:
        self._leaves: list[bytes] = []
        self._leaf = hashlib.sha256()
        self.size = 0
        self.n_lines = 0

    def see(self, data: bytes) -> None:
        self.n_lines += count_lines(data)
        rest = memoryview(data)
        while rest:
            some = rest[: LEAF - self.size % LEAF]
            self._leaf.update(some)
            self.size += len(some)
            rest = rest[len(some) :]
            if not self.size % LEAF:
                self._leaves.append(self._leaf.digest())
                self._leaf = hashlib.sha256()

    def finish(self) -> Content:
        last = [self._leaf.digest()] if self.size % LEAF else []
        return Content(self.size, self.n_lines, b"".join([*self._leaves, *last]))


def look_at(data: bytes) -> Content:
    reader = ContentReader()
    reader.see(data)
    return reader.finish()


def count_lines(data: bytes) -> int:
    """Return how many lines end in `data`; many times faster than `bytes.count`."""
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == ord("\n")))


@dataclass(frozen=True, slots=True)
class Inputs:
    """The content that a path stands for: a SHA-256 of the names and bytes of all files, the number
    of files, and the number of lines unless some are compressed."""

    sha256: str
    n_files: int
    n_lines: int | None


@dataclass(frozen=True, slots=True)
class Unread:
    """What a path stands for before it is read: the number of bytes of all files."""

    n_bytes: int


class Contents:
    """What the files of a path contain. Files and their parts are told in order, which may be the
    order in which they are read."""

    def __init__(self) -> None:
        self._parts: dict[str, list[Content]] = {}
        self._packed = False
        self._reader: ContentReader | None = None
        self._size = self._n_lines = 0

    def begin(self, name: str, *, packed: bool = False) -> None:
        """Note that there is another file."""
        self._parts[name] = []
        self._packed |= packed

    def follow(self, reader: ContentReader) -> None:
        """Note who reads the current file."""
        self._reader = reader

    def add(self, name: str, part: Content) -> None:
        """Note the next part of a file."""
        self._parts[name].append(part)
        self._reader = None
        self._size += part.size
        self._n_lines += part.n_lines

    def expect_lines(self, n_bytes: int) -> int | None:
        """Estimate the number of lines of all files, which have so many bytes, from those known so
        far; return None if some are compressed."""
        size, n_lines = self._size, self._n_lines
        if self._reader is not None:
            size += self._reader.size
            n_lines += self._reader.n_lines
        if self._packed or not size:
            return None
        return round(n_lines * max(n_bytes / size, 1))

    def finish(self) -> Inputs:
        content = hashlib.sha256()
        for name, parts in self._parts.items():
            content.update(name.encode() + b"\0" + _join(part.leaves for part in parts))
            content.update(sum(part.size for part in parts).to_bytes(8, "little"))
        n_lines = None if self._packed else self._n_lines
        return Inputs(content.hexdigest(), len(self._parts), n_lines)


def _join(leaves: Iterable[bytes]) -> bytes:
    return hashlib.sha256(b"".join(leaves)).digest()
