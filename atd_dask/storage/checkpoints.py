"""Work in progress: named pieces in one folder, each a file that carries its own checksum.

A piece belongs to the inputs and settings that it was made from, told by a key: one of another key,
of another format or with a wrong byte counts as absent, and its work is done again.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atd_dask.storage.atomic_files import join, read_file, write_file
from atd_dask.storage.locations import Location

FORMAT = b"atd-dask-checkpoint/1\n"

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The pieces below `url` that belong to `key`. It travels to workers as it is."""

    url: str
    key: str

    def save(self, name: str, facts: Mapping[str, Any], arrays: Arrays) -> None:
        """Keep a piece: facts fit for JSON, and arrays of numbers."""
        body = io.BytesIO()
        body.write(json.dumps({"key": self.key, "facts": facts}, sort_keys=True).encode() + b"\n")
        np.savez(body, allow_pickle=False, **arrays)
        content = body.getvalue()
        digest = hashlib.sha256(content).hexdigest().encode()
        write_file(self._place(name), FORMAT + digest + b"\n" + content)

    def load(self, name: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]] | None:
        """A piece as it was kept, or None."""
        content = read_file(self._place(name))
        if content is None or not content.startswith(FORMAT):
            return None
        digest, _, body = content[len(FORMAT) :].partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != digest:
            return None
        header, _, packed = body.partition(b"\n")
        told = json.loads(header)
        if told["key"] != self.key:
            return None
        with np.load(io.BytesIO(packed), allow_pickle=False) as arrays:
            return told["facts"], dict(arrays)

    def clear(self) -> None:
        """Forgets every piece, of whatever key."""
        Location.of(self.url).remove()

    def _place(self, name: str) -> str:
        return join(self.url, f"{name}.checkpoint")
