"""Checkpoints: named pieces of work in one folder, each a file with its own checksum.

A piece belongs to the inputs and settings that it was made from, which a key identifies. A piece
with another key, in another format or with a wrong byte counts as absent, and is computed again.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atd_dask.json_records import Json, JsonObject
from atd_dask.storage.atomic_files import join, read_file, write_file
from atd_dask.storage.locations import Location

FORMAT = b"atd-dask-checkpoint/1\n"
SUFFIX = ".checkpoint"

Arrays = Mapping[str, NDArray[Any]]


def is_checkpoint(name: str) -> bool:
    """Return whether a file is a piece, or one that was being written."""
    return name.endswith(SUFFIX) or (name.startswith(".") and f"{SUFFIX}.partial-" in name)


def is_sound(content: bytes) -> bool:
    """Return whether a piece has the bytes that were written."""
    digest, _, body = content[len(FORMAT) :].partition(b"\n")
    return content.startswith(FORMAT) and hashlib.sha256(body).hexdigest().encode() == digest


class Piece(NamedTuple):
    """A piece as it was saved."""

    facts: JsonObject
    arrays: dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The pieces below `url` that belong to `key`. It is sent to workers."""

    url: str
    key: str

    def save(self, name: str, facts: Mapping[str, Json], arrays: Arrays) -> None:
        """Save a piece: facts as JSON, and arrays of numbers."""
        body = io.BytesIO()
        body.write(json.dumps({"key": self.key, "facts": facts}, sort_keys=True).encode() + b"\n")
        np.savez(body, allow_pickle=False, **arrays)
        content = body.getvalue()
        digest = hashlib.sha256(content).hexdigest().encode()
        write_file(self._path(name), FORMAT + digest + b"\n" + content)

    def load(self, name: str) -> Piece | None:
        """Return a piece, or None if there is none that is whole and has the key."""
        content = read_file(self._path(name))
        if content is None or not is_sound(content):
            return None
        body = content[len(FORMAT) :].partition(b"\n")[2]
        header, _, packed = body.partition(b"\n")
        told = json.loads(header)
        if told["key"] != self.key:
            return None
        with np.load(io.BytesIO(packed), allow_pickle=False) as arrays:
            return Piece(told["facts"], dict(arrays))

    def clear(self) -> None:
        """Remove every piece, whatever its key. Other files stay."""
        location = Location.of(self.url)
        names = location.names()
        location.remove_files([name for name in names if is_checkpoint(name)])
        if location.local:
            with suppress(OSError):  # it does not exist, or is not empty
                Path(location.url).rmdir()

    def _path(self, name: str) -> str:
        return join(self.url, f"{name}{SUFFIX}")
