"""Writes documents into a corpus store from where they are held: workers write the chunks, and this
process keeps track of them.

Chunks are a property of the format, so a task that writes some of them takes what it needs from the
pieces of a spool in which they begin and end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atd_dask.distribution.spooling import CountSpool
from atd_dask.documents import CountBatch
from atd_dask.storage.corpus_writer import (
    ENTRIES,
    NAMES,
    UNSEEN,
    RowNumbers,
    Rows,
    ScatteredCorpusWriter,
)
from atd_dask.storage.groups import ChunkWriter, record_values
from atd_dask.storage.manifest import ArrayRecord
from atd_dask.text.lexicon import Encoding

# How many chunks a task writes.
CHUNKS_OF_NAMES = 4
CHUNKS_OF_ENTRIES = 8

Values = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Values of some arrays, to be written from `start` on. They begin at `offset` in the first
    piece that has any."""

    paths: Sequence[str]
    start: int
    offset: int
    size: int
    is_whole: bool  # there are no others


@dataclass
class _Cutter:
    """Cuts arrays that come in pieces into stretches of whole chunks."""

    paths: Sequence[str]
    unit: int
    start: int = 0
    offset: int = 0
    n_waiting: int = 0
    waiting: deque[tuple[Any, int]] = field(default_factory=deque)

    def add(self, handle: Any, size: int) -> Iterator[tuple[list[Any], _Stretch]]:
        if size:
            self.waiting.append((handle, size))
            self.n_waiting += size
        while self.n_waiting > self.unit:
            yield self._cut(self.unit)

    def finish(self) -> Iterator[tuple[list[Any], _Stretch]]:
        if self.n_waiting:
            yield self._cut(self.n_waiting)

    def _cut(self, size: int) -> tuple[list[Any], _Stretch]:
        is_whole = self.start == 0 and size == self.n_waiting
        stretch = _Stretch(self.paths, self.start, self.offset, size, is_whole)
        handles = []
        end = self.offset + size
        for handle, n_values in list(self.waiting):
            handles.append(handle)
            if end < n_values:
                break
            end -= n_values
            self.waiting.popleft()
            if end == 0:
                break
        self.offset = end
        self.start += size
        self.n_waiting -= size
        return handles, stretch


def write_documents(
    documents: CountSpool,
    encoding: Encoding,
    writer: ScatteredCorpusWriter,
    advance: Callable[[int], None],
) -> int:
    """Write the documents of a spool; return how many of their tokens are outside the vocabulary.

    The bytes are the same wherever the pieces are, and whatever their sizes.
    """
    runner = documents.runner
    chunks = writer.chunk_writer()
    cutters = [
        _Cutter(paths, n_chunks * chunks.arrays[paths[0]][1])
        for paths, n_chunks in (
            (NAMES, CHUNKS_OF_NAMES),
            (ENTRIES, CHUNKS_OF_ENTRIES),
            (UNSEEN, CHUNKS_OF_ENTRIES),
        )
    ]
    names, entries, unseen = cutters
    n_unseen = 0

    def cut() -> Iterator[tuple[list[Any], _Stretch]]:
        nonlocal n_unseen
        handles: deque[Any] = deque()

        def encode() -> Iterator[tuple[list[Any], None]]:
            codes = encoding.codes
            check = partial(_check_rows, codes.n_words, codes.n_unseen)
            for handle in documents.encode(encoding, check):
                handles.append(handle)
                yield [handle], None

        for numbers in runner.combine(take_numbers, None, encode()):
            handle = handles.popleft()
            writer.append_numbers(numbers)
            n_unseen += int(numbers.unseen_lengths.sum())
            # A stretch of unseen words may span many pieces; what else these have need not wait.
            rare = runner.derive(take_unseen, handle, None)
            yield from names.add(handle, len(numbers.lengths))
            yield from entries.add(handle, int(numbers.entries.sum()))
            yield from unseen.add(rare, int(numbers.unseen_entries.sum()))
            advance(len(numbers.lengths))
        for cutter in cutters:
            yield from cutter.finish()

    records: dict[str, ArrayRecord] = {}
    for written in runner.combine(write_stretch, chunks, cut()):
        records |= written
    sizes = {path: cutter.start for cutter in cutters for path in cutter.paths}
    for path in (path for path, size in sizes.items() if size == 0):
        records[path] = record_values(np.zeros(0, chunks.arrays[path][0]))
    rest = [(path, size) for path, size in sizes.items() if path not in records]
    hashed = zip((path for path, _ in rest), runner.map(hash_array, chunks, rest), strict=True)
    for path, record in (records | dict(hashed)).items():
        writer.close(path, record)
    return n_unseen


def _check_rows(n_words: int, n_unseen: int, known: CountBatch, unseen: CountBatch) -> Rows:
    return Rows.check(known, unseen, n_words, n_unseen)


def take_numbers(rows: Sequence[Rows], _: None, __: None) -> RowNumbers:
    return rows[0].numbers


def take_unseen(rows: Rows, _: None) -> Values:
    return {path: rows.values[path].copy() for path in UNSEEN}


def write_stretch(
    pieces: Sequence[Rows | Values], chunks: ChunkWriter, stretch: _Stretch
) -> dict[str, ArrayRecord]:
    """Write some chunks; return the records of arrays that are whole with them."""
    records = {}
    for path in stretch.paths:
        parts = [(piece.values if isinstance(piece, Rows) else piece)[path] for piece in pieces]
        values = np.concatenate(parts)[stretch.offset : stretch.offset + stretch.size]
        values = values.astype(chunks.arrays[path][0], copy=False)
        chunks.write(path, stretch.start, values)
        if stretch.is_whole:
            records[path] = record_values(values)
    return records


def hash_array(chunks: ChunkWriter, given: tuple[str, int]) -> ArrayRecord:
    return chunks.hash(*given)
