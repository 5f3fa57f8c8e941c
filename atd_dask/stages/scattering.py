"""Writes documents into corpus stores from where they are held: workers write the chunks, and this
process keeps track of them.

Chunks are a property of the format, so they do not end where the pieces of a spool do. A task
encodes a piece and writes the chunks that lie in it. What it has of other chunks stays beside it,
until a second task joins it with what the neighbours have.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain, groupby, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atd_dask.distribution.engine.runner import Runner
from atd_dask.distribution.spooling import AT_ONCE, CountSpool
from atd_dask.documents import CountBatch
from atd_dask.kernels.model import Ints
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

KINDS = (NAMES, ENTRIES, UNSEEN)  # arrays of the same length

# Pieces whose numbers come here: with more at once, workers would wait for the last ones.
JOINED_AT_ONCE = 48

Records = dict[str, ArrayRecord]


@dataclass
class Writing:
    """Documents, and the store that they are written to."""

    documents: CountSpool
    encoding: Encoding
    writer: ScatteredCorpusWriter
    n_unseen: int = 0  # tokens outside the vocabulary
    records: Records = field(default_factory=dict)

    @cached_property
    def sizes(self) -> Ints:
        """How much each piece of a spool brings to the arrays of each kind, pieces × KINDS."""
        sizes = self.documents.sizes(self.encoding)
        return np.array(sizes, np.int64).reshape(-1, len(KINDS))


@dataclass(frozen=True, slots=True)
class Place:
    """Where the values of a piece go, in the arrays of one kind."""

    paths: Sequence[str]
    chunk: int  # values of a chunk
    total: int  # values of the whole array
    start: int
    stop: int

    def list_chunks(self) -> tuple[range, list[int]]:
        """Return the chunks that lie in the piece, and those that it shares with others."""
        first = -(-self.start // self.chunk)
        stop = -(-self.stop // self.chunk) if self.stop == self.total else self.stop // self.chunk
        every = range(self.start // self.chunk, -(-self.stop // self.chunk))
        return range(first, stop), [chunk for chunk in every if not first <= chunk < stop]

    def completes(self, chunk: int) -> bool:
        """Return whether a chunk ends in the piece."""
        return min((chunk + 1) * self.chunk, self.total) <= self.stop

    def limit(self, chunk: int) -> slice:
        """Return which values of the piece are in a chunk."""
        begin = chunk * self.chunk
        return slice(max(begin - self.start, 0), max(begin + self.chunk - self.start, 0))


@dataclass(frozen=True, slots=True)
class Leftover:
    """What remains of a piece whose own chunks are written: its values in shared chunks, by path
    and chunk, the numbers of its documents, and the records of arrays that are whole."""

    values: Mapping[tuple[str, int], NDArray[Any]]
    numbers: RowNumbers
    records: Records


@dataclass(frozen=True, slots=True)
class Joints:
    """Chunks that some pieces share, and that are complete with the last of these."""

    writer: ChunkWriter
    chunks: Sequence[tuple[Place, int, int]]  # arrays, number, index of the first piece


def write_documents(
    writings: Sequence[Writing],
    advance: Callable[[int], None],
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """Write the documents of several spools; call `meanwhile` once, when workers are busy.

    The bytes are the same wherever the pieces are, and whatever their sizes. No store waits for
    another one, so that all workers are busy until the end.
    """
    waiting: deque[tuple[Writing, RowNumbers]] = deque()

    def note(most: int = 0) -> None:
        """Note the numbers of documents until at most so many pieces are waiting."""
        while len(waiting) > most:
            writing, numbers = waiting.popleft()
            writing.writer.append_numbers(numbers)
            writing.n_unseen += int(numbers.unseen_lengths.sum())
            advance(len(numbers.lengths))

    for runner, group in groupby(writings, lambda writing: writing.documents.runner):
        some = list(group)
        owners = [writing for writing in some for _ in writing.sizes]
        actions = [*(writing.writer.lay_out for writing in some), meanwhile]
        questions = _call(actions, AT_ONCE // 2, chain.from_iterable(map(_ask, some)))
        meanwhile = _do_nothing  # once
        answers = runner.combine(write_joints, None, questions, JOINED_AT_ONCE)
        for writing, (numbers, records) in zip(owners, answers, strict=True):
            waiting.append((writing, numbers))
            writing.records |= records
            note(JOINED_AT_ONCE)  # the last ones wait until workers have work again
        _close(runner, some, note)


def _call(actions: Iterable[Callable[[], None]], after: int, items: Iterable[Any]) -> Iterator[Any]:
    """Yield all items; between them, call each action once. By then workers have work, and this
    process would only wait."""
    rest = iter(items)
    yield from islice(rest, after)
    for action in actions:
        action()
    yield from rest


def _do_nothing() -> None:
    pass


def _ask(writing: Writing) -> Iterator[tuple[list[Any], Joints]]:
    """Have each piece of a spool written, and yield what is left to be done with it: the chunks
    that are complete with it, and the handles of all pieces that have some of them."""
    chunks = writing.writer.chunk_writer()
    codes = writing.encoding.codes
    places = list(_find_places(writing, chunks))
    finishes = (partial(write_piece, codes.n_words, codes.n_unseen, chunks, p) for p in places)
    begun: dict[tuple[str, int], int] = {}  # a shared chunk: the first piece that has some of it
    kept: dict[int, Any] = {}  # handles that are needed again
    for number, handle in enumerate(writing.documents.encode(writing.encoding, finishes)):
        kept[number] = handle
        complete = []
        for place in places[number]:
            for chunk in place.list_chunks()[1]:
                first = begun.setdefault((place.paths[0], chunk), number)
                if place.completes(chunk):
                    complete.append((place, chunk, first))
                    del begun[place.paths[0], chunk]
        least = min((first for _, _, first in complete), default=number)
        joints = [(place, chunk, first - least) for place, chunk, first in complete]
        yield [kept[n] for n in range(least, number + 1)], Joints(chunks, joints)
        for old in [n for n in kept if n < min(begun.values(), default=number + 1)]:
            del kept[old]


def _find_places(writing: Writing, chunks: ChunkWriter) -> Iterator[list[Place]]:
    """Yield where the values of each piece go, in the arrays of each kind."""
    stops = np.cumsum(writing.sizes, axis=0)
    for start, stop in zip((stops - writing.sizes).tolist(), stops.tolist(), strict=True):
        yield [
            Place(paths, chunks.arrays[paths[0]][1], int(stops[-1, kind]), start[kind], stop[kind])
            for kind, paths in enumerate(KINDS)
        ]


def _close(runner: Runner, writings: Sequence[Writing], meanwhile: Callable[[], None]) -> None:
    """Close all arrays. Those that nobody has seen as a whole are read back; the longest first. The
    stores are completed after `meanwhile` is called."""
    rest: list[tuple[int, Writing, str, ChunkWriter]] = []
    for writing in writings:
        chunks = writing.writer.chunk_writer()
        for size, paths in zip(writing.sizes.sum(axis=0).tolist(), KINDS, strict=True):
            for path in paths:
                if not size:
                    nothing = np.zeros(0, chunks.arrays[path][0])
                    writing.records[path] = record_values(nothing)
                elif path not in writing.records:
                    rest.append((size, writing, path, chunks))
    rest.sort(key=lambda given: -given[0])
    arrays = ((chunks, path, size) for size, _, path, chunks in rest)
    actions = [meanwhile, *(writing.writer.complete for writing in writings)]
    questions = _call(actions, runner.count_threads(), arrays)
    for (_, writing, path, _), record in zip(
        rest, runner.map(hash_array, None, questions), strict=True
    ):
        writing.records[path] = record
    for writing in writings:
        for path in (path for paths in KINDS for path in paths):
            writing.writer.close(path, writing.records[path])


def write_piece(
    n_words: int,
    n_unseen: int,
    chunks: ChunkWriter,
    places: Sequence[Place],
    known: CountBatch,
    unseen: CountBatch,
) -> Leftover:
    """Write the chunks that lie in a piece."""
    rows = Rows.check(known, unseen, n_words, n_unseen)
    left = {}
    records = {}
    for place in places:
        own, shared = place.list_chunks()
        for path in place.paths:
            values = rows.values[path].astype(chunks.arrays[path][0], copy=False)
            if own:
                first = own.start * place.chunk
                mine = values[first - place.start : own.stop * place.chunk - place.start]
                chunks.write(path, first, mine)
                if len(mine) == place.total:
                    records[path] = record_values(mine)
            for chunk in shared:
                left[path, chunk] = values[place.limit(chunk)].copy()
    return Leftover(left, rows.numbers, records)


def write_joints(pieces: Sequence[Leftover], _: None, joints: Joints) -> tuple[RowNumbers, Records]:
    """Write the chunks that the last piece completes. Return the numbers of its documents, and the
    records of arrays that are whole."""
    records = dict(pieces[-1].records)
    for place, chunk, first in joints.chunks:
        for path in place.paths:
            parts = (piece.values.get((path, chunk)) for piece in pieces[first:])
            values = np.concatenate([part for part in parts if part is not None])
            joints.writer.write(path, chunk * place.chunk, values)
            if len(values) == place.total:
                records[path] = record_values(values)
    return pieces[-1].numbers, records


def hash_array(_: None, given: tuple[ChunkWriter, str, int]) -> ArrayRecord:
    chunks, path, size = given
    return chunks.hash(path, size)
