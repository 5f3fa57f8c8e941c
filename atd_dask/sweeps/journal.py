"""The journal of sweeps: what has been seen, as keys of 128 bits.

Keys lie in sorted segments, each a file that is never changed. A new segment takes in those before
it that are not larger, so that there are few of them however often keys are added. Which segments
hold is for the owner of the journal to remember: a segment that nobody names does not count.
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

# keys × 2: the halves of each
Keys = NDArray[np.uint64]

NO_KEYS: Keys = np.zeros((0, 2), dtype=np.uint64)


def make_key(*parts: bytes) -> bytes:
    """The key of something that the parts tell apart from everything else."""
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
    """The keys below `url` that the named segments hold."""

    url: str
    segments: tuple[Segment, ...] = ()

    @cached_property
    def _content(self) -> list[Keys]:
        return [self._load(segment) for segment in self.segments]

    def contains(self, keys: Keys) -> NDArray[np.bool_]:
        """Which of the keys have been seen."""
        found = np.zeros(len(keys), dtype=np.bool_)
        for content in self._content:
            places = np.searchsorted(content[:, 0], keys[:, 0])
            places[places == len(content)] = 0
            found |= (content[places] == keys).all(axis=1)
        return found

    def add(self, name: str, keys: Keys) -> Journal:
        """A journal that has these keys too, in a new segment of this name. The segments of the old
        journal stay where they are."""
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
        """Removes the segments that this journal does not name, and no other file."""
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
                " not as it was written; put it back from a copy, or begin anew in another folder"
            )
        return kept[1]["keys"]
