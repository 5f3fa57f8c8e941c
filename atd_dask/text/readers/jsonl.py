"""JSON lines, plain or as `.gz`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from typing import IO

from atd_dask.documents import Document, Skipped
from atd_dask.text.options import Source, TextOptions
from atd_dask.text.readers.contents import (
    Content,
    ContentReader,
    Contents,
    count_lines,
    look_at,
)
from atd_dask.text.readers.files import (
    PIECE,
    File,
    clean_text,
    cut_pieces,
    find_files,
    find_size,
    is_packed,
    open_file,
    read_blocks,
    split_lines,
    want_all,
)
from atd_dask.text.readers.ranges import Cut, FileRange, cut_file
from atd_dask.text.readers.records import TOO_LARGE, make_document

ENDINGS = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")

# A file is cut into so many pieces, unless these would be smaller than 8 MB or larger than 16 MB.
MOST_PIECES = 32

# Lenient: a control character in a string is invalid JSON, but no reason to lose a document.
_decode = json.JSONDecoder(strict=False).decode


@dataclass(frozen=True)
class Lines:
    """Whole lines of a file: either their `data`, or the bytes from `start` to `stop` of a plain
    file."""

    file: File
    source: Source
    max_bytes: int
    first_line: int
    start: int = 0
    stop: int = 0
    data: bytes | None = None

    def read(self) -> Iterator[Document | Skipped]:
        if self.data is not None:
            yield from self._documents(read_blocks(BytesIO(self.data)))
            return
        with open_file(self.file.url) as file:
            file.seek(self.start)
            yield from self._documents(read_blocks(file, self.stop - self.start))

    def _documents(self, blocks: Iterable[bytes]) -> Iterator[Document | Skipped]:
        url, name, source = clean_text(self.file.url), self.file.name, self.source
        encoding = source.encoding
        for number, line in enumerate(split_lines(blocks, self.max_bytes), self.first_line):
            if line is None:
                yield Skipped(TOO_LARGE, f"{url}:{number}")
                continue
            text = line.decode(encoding, "replace")
            if number == 1:
                text = text.removeprefix("\ufeff")
            if not text or text.isspace():
                continue
            try:
                record = _decode(text)
            except RecursionError:
                yield Skipped("JSON nested too deeply", f"{url}:{number}")
            except ValueError:
                yield Skipped("not JSON", f"{url}:{number}")
            else:
                if isinstance(record, dict):
                    yield make_document(record, source, f"{url}:{number}", f"{name}:{number}")
                else:
                    yield Skipped("not a JSON object", f"{url}:{number}")


def shards(
    source: Source, path: str, options: TextOptions, wanted: Callable[[File], bool] = want_all
) -> Iterator[Lines]:
    """Yield shards of whole lines. Shards read a plain file themselves, and carry the data of a
    compressed one. Empty lines are ignored."""
    for file in filter(wanted, find_files(path, ENDINGS)):
        with open_file(file.url) as stream:
            if file.url.lower().endswith(".gz"):
                for first_line, data in cut_pieces(stream, options.max_bytes):
                    yield Lines(file, source, options.max_bytes, first_line, data=data)
            else:
                start = 0
                for first_line, stop in _find_ends(stream):
                    yield Lines(file, source, options.max_bytes, first_line, start, stop)
                    start = stop


@dataclass(frozen=True)
class WholeFile:
    """A small plain file, which a worker reads."""

    range: FileRange
    source: Source
    max_bytes: int

    def load(self) -> tuple[Lines, Content]:
        """Read the file; return its lines, and what it contains."""
        data = self.range.read()
        file = self.range.file
        return Lines(file, self.source, self.max_bytes, 1, data=data), look_at(data)


@dataclass(frozen=True)
class CutLines:
    """Lines of a large plain file, without the bytes of their range."""

    cut: Cut
    source: Source
    max_bytes: int

    def take(self, data: bytes) -> Lines:
        """Return the lines, given the bytes of the range."""
        file, first_line = self.cut.range.file, self.cut.first_line
        return Lines(file, self.source, self.max_bytes, first_line, data=self.cut.take(data))


def pieces(
    source: Source, path: str, options: TextOptions, contents: Contents
) -> Iterator[Lines | WholeFile | FileRange]:
    """Yield what makes up all files, in order, so that each is read once: the lines of a compressed
    file, which is read here, and for a plain one where to read it, as a whole or in ranges.
    `contents` is told of all files, but only what those contain that are read here."""
    for file in find_files(path, ENDINGS):
        packed = is_packed(file)
        contents.begin(file.name, packed=packed)
        if packed:
            reader = ContentReader()
            with open_file(file.url, reader.see) as stream:
                for first_line, data in cut_pieces(stream, options.max_bytes):
                    yield Lines(file, source, options.max_bytes, first_line, data=data)
            contents.add(file.name, reader.finish())
        else:
            size = find_size(file)
            ranges = cut_file(file, size, _choose_size(size))
            if len(ranges) == 1:
                yield WholeFile(ranges[0], source, options.max_bytes)
            else:
                yield from ranges


def read_records(path: str, source: Source, options: TextOptions) -> Iterator[dict[str, object]]:
    """Yield the objects of all files, to look at their fields; anything else is ignored."""
    for file in find_files(path, ENDINGS):
        with open_file(file.url) as stream:
            for line in split_lines(read_blocks(stream), options.max_bytes):
                with suppress(RecursionError, ValueError):
                    record = _decode(
                        (line or b"").decode(source.encoding, "replace").removeprefix("\ufeff")
                    )
                    if isinstance(record, dict):
                        yield record


def _find_ends(stream: IO[bytes]) -> Iterator[tuple[int, int]]:
    """Yield where pieces of whole lines end, each with the number of its first line. Large files
    have larger pieces, which cost Dask less."""
    size = _choose_size(stream.seek(0, 2))
    stream.seek(0)
    first_line, offset, stop = 1, 0, 0
    for block in iter(lambda: stream.read(size), b""):
        end = block.rfind(b"\n") + 1
        if end:
            stop = offset + end
            yield first_line, stop
            first_line += count_lines(block)
        offset += len(block)
    if offset > stop:
        yield first_line, offset


def _choose_size(n_bytes: int) -> int:
    """Return the size of the pieces of a file."""
    return min(max(n_bytes // MOST_PIECES, 2 * PIECE), 4 * PIECE)
