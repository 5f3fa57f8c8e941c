"""The manifest of a store: what was written, so that anyone can check that it is still there.

All our Zarr groups have one, and its rules hold for every kind and version of store: the file is
canonical JSON, `sha256` is the hash of that JSON without the field itself, and `format` is
`atd-dask-<kind>/<version>`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any

from numpy.typing import NDArray

from atd_dask.errors import DamagedStoreError, InputError
from atd_dask.storage.locations import MANIFEST, UNFINISHED, Location


class ContentHash:
    """SHA-256 of the values of an array in C order, independent of codecs and chunks.

    Numbers count as their little-endian bytes; a string as the length of its UTF-8 form in eight
    little-endian bytes, followed by that form.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def update(self, values: NDArray[Any]) -> None:
        if values.dtype.kind == "T":
            texts = [text.encode() for text in values.ravel().tolist()]
            self._hash.update(b"".join(len(t).to_bytes(8, "little") + t for t in texts))
        else:
            little = values.astype(values.dtype.newbyteorder("<"), order="C", copy=False)
            self._hash.update(little.data)

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


@dataclass(frozen=True, slots=True)
class ArrayRecord:
    """What an array contained when it was written."""

    shape: tuple[int, ...]
    dtype: str
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What a store contained when it was written; `metadata` has the SHA-256 of every
    `zarr.json`."""

    format: str
    counts: Mapping[str, int]
    arrays: Mapping[str, ArrayRecord]
    metadata: Mapping[str, str]

    @property
    def kind(self) -> str:
        return self.format.rpartition("/")[0].removeprefix("atd-dask-")

    @property
    def version(self) -> int:
        return int(self.format.rpartition("/")[2])

    @cached_property
    def digest(self) -> str:
        """The identity of the content, independent of codecs, chunks and location."""
        arrays = {name: asdict(record) for name, record in self.arrays.items()}
        return hashlib.sha256(_canonical(arrays)).hexdigest()

    def to_bytes(self) -> bytes:
        fields = asdict(self) | {"digest": self.digest}
        return _canonical(fields | {"sha256": hashlib.sha256(_canonical(fields)).hexdigest()})

    @classmethod
    @lru_cache(maxsize=64)  # a sweep opens the same stores again and again
    def from_bytes(cls, content: bytes) -> Manifest:
        """Parse a manifest; raise ValueError if it is damaged."""
        try:
            fields = json.loads(content)
            arrays = {
                name: ArrayRecord(tuple(record["shape"]), record["dtype"], record["sha256"])
                for name, record in fields["arrays"].items()
            }
            manifest = cls(fields["format"], fields["counts"], arrays, fields["metadata"])
            sound = manifest.to_bytes() == content
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ValueError("it cannot be read") from error
        if not sound:
            raise ValueError("its SHA-256 does not match its content")
        return manifest


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, indent=1).encode() + b"\n"


def read_manifest(location: Location) -> Manifest:
    """Read the manifest of a store of any kind and version."""
    content = location.read(MANIFEST)
    if content is None and not location.names():
        raise InputError(
            f"there is no store at {location.url}: ingest it first or correct the path"
        )
    if content is None and location.is_file():
        raise InputError(
            f"a store, and the output of a run, is a folder, but {location.url} is a file: correct"
            " the path"
        )
    if content is None:
        raise InputError(
            f"{location.url} is not a finished store of atd-dask, it has no {MANIFEST}: run the "
            "ingest that should have made it again, or, if another program made it, save its "
            "counts as npz and ingest them with format npz"
        )
    if content == UNFINISHED:
        raise InputError(
            f"{location.url} is not a finished store, its writing was interrupted: "
            "run the ingest that makes it again"
        )
    try:
        manifest = Manifest.from_bytes(content)
    except ValueError as error:
        raise DamagedStoreError(
            f"{MANIFEST} of {location.url} is damaged ({error}): run the command that made it again"
        ) from error
    if not re.fullmatch(r"atd-dask-[a-z-]+/[1-9][0-9]*", manifest.format):
        raise InputError(
            f"{location.url} is not a store of atd-dask, its format is {manifest.format!r}"
        )
    return manifest


def check_format(manifest: Manifest, kind: str, version: int, url: str) -> None:
    """Check that a store is of this kind, and of a version that this code can read."""
    if manifest.kind != kind:
        raise InputError(f"{url} must be a {kind} store, but it is a {manifest.kind} store")
    if manifest.version > version:
        raise InputError(
            f"{url} has format {manifest.format}, but this version of atd-dask reads {kind} "
            f"stores up to version {version}: install a newer atd-dask, or make the store again"
        )
