"""Zarr groups that are written atomically, and checked as they are read.

Every chunk carries checksums that any Zarr reader verifies. The fill value is not a valid entry, so
that readers which do not know the manifest can tell a missing chunk; the reader here refuses it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import zarr
from numpy.typing import ArrayLike, NDArray
from zarr.abc.store import ByteRequest, Store
from zarr.codecs import BloscCodec, Crc32cCodec, ZstdCodec
from zarr.storage import LocalStore, WrapperStore

from atd_dask.errors import DamagedStoreError
from atd_dask.json_records import Json
from atd_dask.outages import leave_outages_to_requests
from atd_dask.storage.locations import Location, Partial, limit_seconds, name_location
from atd_dask.storage.manifest import (
    ArrayRecord,
    ContentHash,
    Manifest,
    check_format,
    read_manifest,
)

if TYPE_CHECKING:
    from zarr.core.buffer import Buffer, BufferPrototype

TEXT = np.dtypes.StringDType()
METADATA = "zarr.json"

# Arrays of bytes hold UTF-8, in which no byte is 255.
_FILL = {"i": -1, "u": 255, "f": math.nan, "T": "\ufffdmissing"}

# With bit shuffling, numbers are packed three times as fast, and as small.
_BLOSC = BloscCodec(cname="lz4", shuffle="bitshuffle")
_ZSTD = ZstdCodec(level=1, checksum=True)
_COMPRESSORS = {"i": _BLOSC, "f": _BLOSC, "u": _ZSTD, "T": _ZSTD}

# Chunks that are written at a time: in parallel, with one update of the array's shape.
_CHUNKS_AT_ONCE = 8


class ArrayStream:
    """A one-dimensional array that is written from beginning to end.

    Values are buffered until they fill some chunks; no chunk is written twice.
    """

    def __init__(self, array: zarr.Array[Any], dtype: np.dtype[Any]) -> None:
        self._array = array
        self._dtype = dtype
        self._chunk = array.chunks[0]
        self._hash = ContentHash()
        self._waiting: list[NDArray[Any]] = []
        self._n_waiting = 0
        self._n_written = 0

    def append(self, values: ArrayLike) -> None:
        # A copy: the caller may use its buffer again.
        piece = np.array(values, dtype=self._dtype)
        self._waiting.append(piece)
        self._n_waiting += len(piece)
        if self._n_waiting >= _CHUNKS_AT_ONCE * self._chunk:
            self._write(self._n_waiting // self._chunk * self._chunk)

    def finish(self) -> ArrayRecord:
        self._write(self._n_waiting)
        return _record((self._n_written,), self._dtype, self._hash)

    def _write(self, size: int) -> None:
        if not size:
            return
        values = np.concatenate(self._waiting)
        ready, rest = values[:size], values[size:].copy()
        self._hash.update(ready)
        end = self._n_written + size
        self._array.resize((end,))
        self._array[self._n_written : end] = ready
        self._n_written = end
        self._waiting, self._n_waiting = [rest], len(rest)


def _record(shape: tuple[int, ...], dtype: np.dtype[Any], content: ContentHash) -> ArrayRecord:
    return ArrayRecord(shape, "string" if dtype.kind == "T" else dtype.name, content.hexdigest())


@dataclass(frozen=True, slots=True)
class ChunkWriter:
    """Writes chunks of arrays of one dimension into a group in the making, from any process."""

    location: Location
    arrays: Mapping[str, tuple[np.dtype[Any], int]]  # path: type, length of a chunk

    def write(self, path: str, start: int, values: NDArray[Any]) -> None:
        """Write values from `start` on, where a chunk begins. They end with a chunk, or with the
        array."""
        if len(values):
            store = _WritingStore(self.location.zarr_store(read_only=False))
            try:
                self._open(store, path, start + len(values))[start:] = values
            except OSError as error:
                name_location(error, self.location.url)
                raise

    def hash(self, path: str, size: int) -> ArrayRecord:
        """Read the whole array back, and return its record."""
        array = self._open(_UnfinishedStore(self.location.zarr_store(read_only=False)), path, size)
        dtype, chunk = self.arrays[path]
        content = ContentHash()
        for start in range(0, size, _CHUNKS_AT_ONCE * chunk):
            content.update(np.asarray(array[start : start + _CHUNKS_AT_ONCE * chunk]))
        return _record((size,), dtype, content)

    def _open(self, store: Store, path: str, size: int) -> zarr.Array[Any]:
        dtype, chunk = self.arrays[path]
        return _create_array(store, path, (size,), dtype, (chunk,), {})


def record_values(values: NDArray[Any]) -> ArrayRecord:
    """Return the record of a whole array."""
    content = ContentHash()
    content.update(values)
    return _record(values.shape, values.dtype, content)


def _create_array(
    store: Store,
    path: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    chunks: tuple[int, ...],
    attributes: Mapping[str, Json],
) -> zarr.Array[Any]:
    return zarr.create_array(
        store,
        name=path,
        shape=shape,
        dtype=dtype,
        chunks=chunks,
        compressors=[_COMPRESSORS[dtype.kind], Crc32cCodec()],
        fill_value=_FILL[dtype.kind],
        zarr_format=3,
        attributes=dict(attributes),
        config={"write_empty_chunks": True},
    )


class GroupWriter:
    """Writes a Zarr group under a temporary name; `seal` moves it to its location.

    Without `seal`, nothing of it remains, and an older store stays.
    """

    def __init__(self, url: str | os.PathLike[str], store_format: str) -> None:
        self._target = Location.of(url)
        self._format = store_format
        self._arrays: dict[str, zarr.Array[Any]] = {}
        self._streams: dict[str, ArrayStream] = {}
        self._records: dict[str, ArrayRecord] = {}

    def __enter__(self) -> Self:
        self._partial: Partial | None = Partial(self._target)
        self._store = _WritingStore(self._partial.location.zarr_store(read_only=False))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        name_location(error, self._target.url)
        if self._partial is not None:
            self._partial.discard()
            self._partial = None

    def group(self, path: str, attributes: Mapping[str, Json]) -> zarr.Group:
        """Add a group; the root has the path '' and comes first."""
        return zarr.create_group(self._store, path=path, zarr_format=3, attributes=dict(attributes))

    def stream(
        self,
        path: str,
        dtype: np.dtype[Any],
        chunk: int,
        attributes: Mapping[str, Json] | None = None,
    ) -> ArrayStream:
        """Add a one-dimensional array that is filled piece by piece until the store is sealed."""
        array = self._create(path, (0,), dtype, (chunk,), attributes)
        self._streams[path] = ArrayStream(array, dtype)
        return self._streams[path]

    def put(
        self, path: str, values: NDArray[Any], attributes: Mapping[str, Json] | None = None
    ) -> None:
        """Add a small array of any shape as one chunk."""
        chunks = tuple(max(1, size) for size in values.shape)
        array = self._create(path, values.shape, values.dtype, chunks, attributes)
        if values.size:
            array[...] = values
        self._records[path] = record_values(values)

    def chunked(
        self,
        path: str,
        dtype: np.dtype[Any],
        chunk: int,
        attributes: Mapping[str, Json] | None = None,
    ) -> None:
        """Add an array of one dimension whose chunks come from the `ChunkWriter`, and whose record
        from `close`."""
        self._create(path, (0,), dtype, (chunk,), attributes)

    def chunk_writer(self, arrays: Mapping[str, tuple[np.dtype[Any], int]]) -> ChunkWriter:
        """Return what writes the chunks of some arrays, with their types and lengths of chunks."""
        assert self._partial is not None
        return ChunkWriter(self._partial.location, dict(arrays))

    def flush(self) -> None:
        """Write what streams still hold, and have the disk take what is there: less is left to wait
        for when the store is sealed."""
        assert self._partial is not None
        self._finish_streams()
        self._partial.flush()

    def _finish_streams(self) -> None:
        for path, stream in self._streams.items():
            self._records[path] = stream.finish()
        self._streams = {}

    def close(self, path: str, record: ArrayRecord) -> None:
        """Note that all chunks of an array are written."""
        self._arrays[path].resize(record.shape)
        self._records[path] = record

    def _create(
        self,
        path: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        chunks: tuple[int, ...],
        attributes: Mapping[str, Json] | None,
    ) -> zarr.Array[Any]:
        array = _create_array(self._store, path, shape, dtype, chunks, attributes or {})
        self._arrays[path] = array
        return array

    def seal(self, counts: Mapping[str, int]) -> None:
        """Finish every stream, write the manifest and move the store to its location."""
        assert self._partial is not None
        self._finish_streams()
        metadata = self._write_metadata(self._partial.location)
        names = set(metadata).union(*(chunk_keys(p, a) for p, a in self._arrays.items()))
        manifest = Manifest(self._format, dict(counts), self._records, metadata)
        self._partial.publish(names, manifest.to_bytes())
        self._partial = None

    def _write_metadata(self, location: Location) -> dict[str, str]:
        """Write every metadata file, and all of them together in that of the root; return their
        hashes.

        Consolidated, a store opens with two reads. Zarr's own function is not used because it warns
        that consolidated metadata is not part of the specification. Readers may ignore it.
        """
        contents = {name: value.to_bytes() for name, value in sorted(self._store.metadata.items())}
        root = json.loads(contents[METADATA])
        root["consolidated_metadata"] = {
            "kind": "inline",
            "must_understand": False,
            "metadata": {
                name.removesuffix(f"/{METADATA}"): json.loads(content)
                for name, content in contents.items()
                if name != METADATA
            },
        }
        contents[METADATA] = json.dumps(root, indent=1).encode()
        for name, content in contents.items():
            location.write(name, content)
        return {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}


class _WritingStore(WrapperStore[Store]):
    """A Zarr store that is only written to. Metadata is held back, because it changes until the
    end.

    No chunk is written twice, so there is no need to look for existing ones.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.metadata: dict[str, Buffer] = {}

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        return self.metadata.get(key)

    async def exists(self, key: str) -> bool:
        return key in self.metadata

    async def set(self, key: str, value: Buffer) -> None:
        if key.endswith(METADATA):
            self.metadata[key] = value
        elif isinstance(self._store, LocalStore):
            await super().set(key, value)
        else:
            leave_outages_to_requests(asyncio.get_running_loop())  # Zarr's own
            await asyncio.wait_for(super().set(key, value), limit_seconds(len(value)))

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        if key not in self.metadata:
            await self.set(key, value)


def chunk_keys(path: str, array: zarr.Array[Any]) -> set[str]:
    """Return the names of the files that hold the chunks of an array."""
    if array.ndim == 0:
        return {f"{path}/c"}
    return {f"{path}/c/{'/'.join(map(str, at))}" for at in np.ndindex(array.cdata_shape)}


class _UnfinishedStore(_WritingStore):
    """A store in the making that is read: its metadata is not there yet, its chunks are."""

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        if key.endswith(METADATA):
            return self.metadata.get(key)
        value = await self._store.get(key, prototype, byte_range)
        if value is None:
            raise DamagedStoreError(f"the chunk {key} is missing")
        return value


class _CompleteStore(WrapperStore[Store]):
    """A Zarr store in which a missing chunk is an error, not a chunk of fill values."""

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        value = await super().get(key, prototype, byte_range)
        if value is None and not key.endswith(METADATA):
            raise DamagedStoreError(f"the chunk {key} is missing")
        return value


class SealedGroup:
    """A finished store, opened for reading. Opening reads the manifest and the root metadata."""

    def __init__(self, location: Location, manifest: Manifest) -> None:
        content = location.read(METADATA)
        if content is None or hashlib.sha256(content).hexdigest() != manifest.metadata[METADATA]:
            state = "missing" if content is None else "not as it was written"
            raise DamagedStoreError(
                f"{METADATA} of {location.url} is {state}: run the command that made it again"
            )
        self.url = location.url
        self.manifest = manifest
        store = _CompleteStore(location.zarr_store(read_only=True))
        self._root = zarr.open_group(store, mode="r", zarr_format=3, use_consolidated=True)
        self._arrays: dict[str, zarr.Array[Any]] = {}

    @classmethod
    def open(cls, url: str | os.PathLike[str], kind: str, version: int) -> SealedGroup:
        """Open a store of one kind, of any version up to `version`."""
        location = Location.of(url)
        manifest = read_manifest(location)
        check_format(manifest, kind, version, location.url)
        return cls(location, manifest)

    def array(self, path: str) -> zarr.Array[Any]:
        if path not in self._arrays:
            self._arrays[path] = cast("zarr.Array[Any]", self._root[path])
        return self._arrays[path]

    def read(self, path: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return the values of an array, or only the rows from `start` to before `stop`."""
        array = self.array(path)
        rows = slice(start, stop) if array.ndim else ...
        try:
            return np.asarray(array[rows], dtype=array.dtype)
        # What codecs raise for wrong bytes.
        except (DamagedStoreError, ValueError, RuntimeError) as error:
            location = f"{path}[{start}:{'' if stop is None else stop}]" if array.ndim else path
            raise DamagedStoreError(
                f"{location} of {self.url} is damaged ({error}): run the command that made it again"
            ) from error

    def pieces(self, path: str) -> Iterator[NDArray[Any]]:
        """Yield the values of an array in bounded memory, a chunk of rows at a time."""
        array = self.array(path)
        if not array.ndim:
            yield self.read(path)
            return
        for start in range(0, array.shape[0], array.chunks[0]):
            yield self.read(path, start, min(start + array.chunks[0], array.shape[0]))
