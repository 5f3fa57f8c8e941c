"""Ranges of files of lines, each read once, by whoever needs it.

Nobody has to read a file to cut it: it is cut at multiples of a number of bytes. What is in a range
is read and looked at first, which is quick. Then the lines are known that begin in it, and their
numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from atd_dask.errors import InputError
from atd_dask.text.readers.contents import LEAF, Content, look_at
from atd_dask.text.readers.files import File, clean_text, open_filesystem, reachable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FileRange:
    """The bytes from `start` to before `stop` of a plain file. It begins with a leaf."""

    file: File
    start: int
    stop: int

    def read(self) -> bytes:
        """Read the bytes, with one request if the file is elsewhere."""
        url = self.file.url
        fs, path = open_filesystem(url)
        with reachable(url):
            data: bytes = fs.cat_file(path, start=self.start, end=self.stop)
        if len(data) > self.stop - self.start:  # a server that knows no ranges
            data = data[self.start : self.stop]
        if len(data) < self.stop - self.start:
            raise InputError(
                f"{clean_text(url)} must stay as it is while it is read, but it became shorter:"
                " run the command again"
            )
        return data


@dataclass(frozen=True, slots=True)
class RangeContent:
    """What is in a range."""

    content: Content
    head: bytes  # up to the end of the first line; everything if no line ends
    ends_line: bool


@dataclass(frozen=True, slots=True)
class Cut:
    """The lines that begin in a range: without its first bytes, and with what follows it."""

    range: FileRange
    first_line: int
    skip: int
    tail: bytes = b""

    def take(self, data: bytes) -> bytes:
        return data[self.skip :] + self.tail


def cut_file(file: File, size: int, piece: int) -> list[FileRange]:
    """Cut a file of `size` bytes into ranges of about `piece` bytes."""
    step = -(-piece // LEAF) * LEAF
    return [FileRange(file, start, min(start + step, size)) for start in range(0, size, step)]


def look_at_range(data: bytes) -> RangeContent:
    end = data.find(b"\n") + 1
    return RangeContent(look_at(data), data[:end] if end else data, data.endswith(b"\n"))


def cut_lines(
    ranges: Iterable[tuple[FileRange, T, RangeContent]], max_bytes: int
) -> Iterator[tuple[Cut, T]]:
    """Yield the lines of ranges, which come in order and are all of their files, each with what
    came with its range.

    A line of more than `max_bytes` may be cut to one byte more than that, which is still too long.
    """
    waiting: tuple[Cut, T] | None = None  # its last line may go on in the next range
    n_lines = 0  # that end before the range
    ends_line = True
    for given, handle, found in ranges:
        if given.start == 0:
            n_lines, ends_line = 0, True
        skip = 0
        if not ends_line and waiting is not None:
            cut, its_handle = waiting
            tail = (cut.tail + found.head)[: max_bytes + 1]
            waiting = Cut(cut.range, cut.first_line, cut.skip, tail), its_handle
            if not found.content.n_lines:
                continue
            skip = len(found.head)
        if waiting is not None:
            yield waiting
        first_line = n_lines + 1 + (skip > 0)
        waiting = None
        if skip < found.content.size:
            waiting = Cut(given, first_line, skip), handle
        n_lines += found.content.n_lines
        ends_line = found.ends_line
    if waiting is not None:
        yield waiting
