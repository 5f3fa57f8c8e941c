"""The journal of sweeps: what has been seen, as keys of 128 bits.

Keys are in sorted segments, files that never change. A new segment absorbs earlier ones that are
not larger, so there are always few of them. The owner of the journal remembers which segments are
valid: a segment that nobody names does not count.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from atd_dask.errors import DamagedStoreError
from atd_dask.json_records import JsonRecord
from atd_dask.storage.atomic_files import join
from atd_dask.storage.checkpoints import SUFFIX, Checkpoints, is_checkpoint
from atd_dask.storage.locations import Location

# keys × 2: two halves each
Keys = NDArray[np.uint64]

NO_KEYS: Keys = np.zeros((0, 2), dtype=np.uint64)


def make_key(*parts: bytes) -> bytes:
    """Return the key of something that these parts identify."""
    content = hashlib.blake2b(digest_size=16)
    for part in parts:
        content.update(len(part).to_bytes(8, "little") + part)
    return content.digest()


def join_keys(keys: list[bytes]) -> Keys:
    return np.frombuffer(b"".join(keys), dtype="<u8").reshape(-1, 2).astype(np.uint64)


@dataclass(frozen=True)
class Segment(JsonRecord):
    """A file of the journal."""

    name: str
    keys: int


@dataclass(frozen=True)
class Journal:
    """The keys below `url` in the named segments."""

    url: str
    segments: tuple[Segment, ...] = ()

    @cached_property
    def _content(self) -> list[Keys]:
        return [self._load(segment) for segment in self.segments]

    def contains(self, keys: Keys) -> NDArray[np.bool_]:
        """Return which of the keys have been seen."""
        found = np.zeros(len(keys), dtype=np.bool_)
        for content in self._content:
            places = np.searchsorted(content[:, 0], keys[:, 0])
            places[places == len(content)] = 0
            found |= (content[places] == keys).all(axis=1)
        return found

    def add(self, name: str, keys: Keys) -> Journal:
        """Return a journal that also has these keys, in a new segment with this name. The segments
        of the old journal stay."""
        segments = list(self.segments)
        content = self._content[:]
        parts = [keys]
        while segments and segments[-1].keys <= sum(map(len, parts)):
            segments.pop()
            parts.append(content.pop())
        merged = np.unique(np.concatenate(parts), axis=0)
        if not len(merged):
            return self
        self._checkpoints.save(name, {}, {"keys": merged})
        return Journal(self.url, (*segments, Segment(name, len(merged))))

    def tidy(self) -> None:
        """Remove segments that this journal does not name, and no other file."""
        location = Location.of(self.url)
        named = {f"{segment.name}{SUFFIX}" for segment in self.segments}
        gone = [name for name in location.names() if is_checkpoint(name) and name not in named]
        location.remove_files(gone)

    @property
    def _checkpoints(self) -> Checkpoints:
        return Checkpoints(self.url, "journal")

    def _load(self, segment: Segment) -> Keys:
        kept = self._checkpoints.load(segment.name)
        if kept is None or len(kept[1]["keys"]) != segment.keys:
            raise DamagedStoreError(
                f"the journal is damaged: {join(self.url, segment.name)}.checkpoint is missing or"
                " damaged; restore it from a backup, or start over in another folder"
            )
        return kept[1]["keys"]
