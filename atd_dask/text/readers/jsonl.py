"""JSON lines, plain or as `.gz`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from atd_dask.documents import Document, Skipped
from atd_dask.text.options import Source, TextOptions
from atd_dask.text.readers.files import (
    PIECE,
    File,
    clean_text,
    count_lines,
    cut_pieces,
    find_files,
    open_file,
    read_blocks,
    split_lines,
    want_all,
)
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
            yield from self._documents([self.data])
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
    size = min(max(stream.seek(0, 2) // MOST_PIECES, 2 * PIECE), 4 * PIECE)
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
