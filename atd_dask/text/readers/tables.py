"""Tables as text, `csv` and `tsv`, with a header row, plain or as `.gz`.

A quoted field may span lines, so a file cannot be cut without parsing it, and shards carry their
rows. Quoting is that of Python's csv module in both formats.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO

from atd_dask.documents import Document, Skipped
from atd_dask.errors import InputError
from atd_dask.text.options import Source, TextOptions
from atd_dask.text.readers.contents import ContentReader, Contents
from atd_dask.text.readers.files import (
    PIECE,
    File,
    clean_text,
    find_files,
    is_packed,
    open_file,
    read_blocks,
    split_lines,
    want_all,
)
from atd_dask.text.readers.records import TOO_LARGE, check_columns, make_document

DELIMITERS = {"csv": ",", "tsv": "\t"}

# The line a row starts on, and its fields or the reason why it is skipped.
Row = tuple[int, tuple[str, ...] | str]

# Fed after the last line: it is returned as a row of its own unless a quoted field is still open.
_END = "\0end"


@dataclass(frozen=True)
class Rows:
    """Consecutive rows of one file."""

    file: File
    source: Source
    header: tuple[str, ...]
    rows: tuple[Row, ...]

    def read(self) -> Iterator[Document | Skipped]:
        url = clean_text(self.file.url)
        for line, row in self.rows:
            location = f"{url}:{line}"
            if isinstance(row, str):
                yield Skipped(row, location)
            elif len(row) != len(self.header):
                yield Skipped("another number of fields than the header", location)
            else:
                record = dict(zip(self.header, row, strict=True))
                yield make_document(record, self.source, location, f"{self.file.name}:{line}")


def shards(
    source: Source,
    path: str,
    options: TextOptions,
    wanted: Callable[[File], bool] = want_all,
    contents: Contents | None = None,
) -> Iterator[Rows]:
    """Yield groups of rows of every file. Empty lines are ignored. `contents` is told what the
    files contain."""
    # The limit of the csv module applies to the whole process and is too low for documents, so it
    # is raised. `_Feed` enforces the limit for whole rows.
    csv.field_size_limit(max(csv.field_size_limit(), options.max_bytes))
    for file in filter(wanted, find_files(path, find_endings(source))):
        reader = ContentReader()
        if contents is not None:
            contents.begin(file.name, packed=is_packed(file))
            contents.follow(reader)
        with open_file(file.url, None if contents is None else reader.see) as stream:
            rows = _read_rows(_Feed(stream, source.encoding, options.max_bytes), source, file.url)
            _, header = next(rows, (1, "no row"))
            if isinstance(header, str):
                raise InputError(f"{file.url} must start with a header row, got {header}")
            check_columns(header, source, f"the header of {file.url}")
            for group in _group(rows):
                yield Rows(file, source, header, group)
        if contents is not None:
            contents.add(file.name, reader.finish())


def find_endings(source: Source) -> tuple[str, ...]:
    return f".{source.format}", f".{source.format}.gz"


class _TooLargeError(Exception):
    """A row has grown beyond the limit."""


class _Feed(Iterator[str]):
    """The lines of a file for the csv reader; it keeps track of the size of the current row."""

    def __init__(self, stream: IO[bytes], encoding: str, max_bytes: int) -> None:
        self._lines = split_lines(read_blocks(stream), max_bytes)
        self._encoding = encoding
        self._max_bytes = max_bytes
        self._size = self._quotes = 0
        self.line = 0
        self.ended = False

    def start_row(self) -> int:
        """Begin a row, and return the number of its first line."""
        self._size = self._quotes = 0
        return self.line + 1

    def skip_row(self) -> None:
        """Skip the rest of a row that is too large. In a line that is too large by itself,
        quotation marks are not known; the row is assumed to end with that line."""
        while self._quotes % 2 and not self.ended:
            try:
                next(self)
            except _TooLargeError:
                continue

    def __next__(self) -> str:
        if self.ended:
            raise StopIteration
        self.line += 1
        try:
            line = next(self._lines)
        except StopIteration:
            self.ended = True
            return _END
        if line is None:
            self._quotes = 0
            raise _TooLargeError
        self._size += len(line) + 1
        self._quotes += line.count(b'"')
        if self._size > self._max_bytes:
            raise _TooLargeError
        text = line.decode(self._encoding, "replace")
        return (text.removeprefix("\ufeff") if self.line == 1 else text) + "\n"


def _read_rows(feed: _Feed, source: Source, url: str) -> Iterator[Row]:
    reader = csv.reader(feed, delimiter=DELIMITERS[source.format])
    while not feed.ended:
        start = feed.start_row()
        row: tuple[str, ...] | str
        try:
            row = tuple(next(reader))
        except _TooLargeError:
            feed.skip_row()
            row = TOO_LARGE
        except csv.Error:
            row = f"not {source.format}"
        if feed.ended and row != (_END,):
            raise InputError(f"{url}, line {start}: a quoted field must be closed, but is not")
        if row and not feed.ended:
            yield start, row


def _group(rows: Iterator[Row]) -> Iterator[tuple[Row, ...]]:
    group: list[Row] = []
    size = 0
    for row in rows:
        group.append(row)
        size += 64 + sum(map(len, row[1]))
        if size >= PIECE:
            yield tuple(group)
            group, size = [], 0
    if group:
        yield tuple(group)
