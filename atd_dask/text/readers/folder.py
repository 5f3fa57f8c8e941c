"""The format `text`: a folder tree in which every file is a document."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from atd_dask.documents import Document, Skipped
from atd_dask.text.options import Source, TextOptions
from atd_dask.text.readers.files import PIECE, File, clean_text, open_file, walk_files, want_all
from atd_dask.text.readers.records import TOO_LARGE

_GROUP_FILES = 1000

# How files begin that are not plain text, however they are named.
_BINARY = {
    b"%PDF-": "PDF",
    b"PK\x03\x04": "a zip archive, such as DOCX or ODT",
    b"\xd0\xcf\x11\xe0": "an Office document",
    b"{\\rtf": "RTF",
    b"\x1f\x8b": "gzip",
    b"\x89PNG": "an image",
    b"\xff\xd8\xff": "an image",
    b"GIF8": "an image",
    b"\x7fELF": "a program",
}


@dataclass(frozen=True)
class TextFiles:
    """Some files of a folder."""

    files: tuple[File, ...]
    encoding: str
    max_bytes: int

    def read(self) -> Iterator[Document | Skipped]:
        for file in self.files:
            with open_file(file.url) as stream:
                data = stream.read(self.max_bytes + 1)
            if len(data) > self.max_bytes:
                yield Skipped(TOO_LARGE, clean_text(file.url))
            elif kind := next((_BINARY[mark] for mark in _BINARY if data.startswith(mark)), ""):
                yield Skipped(f"not plain text but {kind}", clean_text(file.url))
            else:
                text = data.decode(self.encoding, "replace").removeprefix("\ufeff")
                yield Document(file.name, text, folder_label(file.name))


def shards(
    source: Source, path: str, options: TextOptions, wanted: Callable[[File], bool] = want_all
) -> Iterator[TextFiles]:
    """Yield groups of the files under a folder. The id of a file is its relative path, and its
    label the name of its folder; files directly in `path` have no label."""
    for files in group_files(found for found in walk_files(path) if wanted(found[0])):
        yield TextFiles(files, source.encoding, options.max_bytes)


def group_files(files: Iterable[tuple[File, int]]) -> Iterator[tuple[File, ...]]:
    """Yield consecutive files for one shard: a few megabytes, and not too many to open."""
    group: list[File] = []
    total = 0
    for file, size in files:
        group.append(file)
        total += size
        if total >= PIECE or len(group) == _GROUP_FILES:
            yield tuple(group)
            group, total = [], 0
    if group:
        yield tuple(group)


def folder_label(name: str) -> tuple[str, ...]:
    """Return the name of the folder in a relative path."""
    parent = PurePosixPath(name).parent.name
    return (parent,) if parent else ()
