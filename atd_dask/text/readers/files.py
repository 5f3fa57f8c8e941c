"""Finds and opens the files of a source, and cuts them into lines and pieces without holding a
whole file.

Paths are local, or any URL that fsspec supports.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

import fsspec
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from atd_dask.errors import InputError
from atd_dask.outages import explain_outage
from atd_dask.text.readers.contents import ContentReader, Contents, Inputs, count_lines

BLOCK = 2**20
PIECE = 4 * 2**20

_GZIP = (".gz", ".tgz")
_MAGIC = re.compile(r"[*?\[]")
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class File:
    """A file of a source: what to open, and its short name for ids and messages."""

    url: str
    name: str


def want_all(file: File) -> bool:
    return True


def find_files(path: str, endings: tuple[str, ...]) -> list[File]:
    """Return the files that `path` stands for, sorted: itself, what a glob matches, or the files of
    a folder whose names end with one of `endings`. Hidden files of a folder are left out."""
    fs, root = open_filesystem(path)
    with reachable(path):
        if fs.isfile(root):
            return [File(_url(fs, root, path), basename(root))]
        if fs.isdir(root):
            base, names = root, fs.ls(root, detail=False)
            names = [n for n in names if basename(n).lower().endswith(endings) and _shown(n)]
        elif _MAGIC.search(root):
            base, names = _glob_base(root), fs.glob(root)
        else:
            raise FileNotFoundError
        found = [
            File(_url(fs, name), relative_name(name, base))
            for name in sorted(names)
            if fs.isfile(name)
        ]
    if not found:
        raise InputError(f"{path} must hold a file that ends with {' or '.join(endings)}, has none")
    return found


def walk_files(path: str) -> Iterator[tuple[File, int]]:
    """Yield all files below the folder `path` with their sizes; names are relative to it. If it is
    a glob, yield the files that it matches and all those below the folders that it matches, each
    once.

    The files of a folder come first, then its folders, each sorted by name. Hidden files and
    folders are left out, and so are pipes, sockets and links to folders.
    """
    fs, root = open_filesystem(path)
    with reachable(path):
        if fs.isdir(root):
            base, entries = root, _list_folder(fs, root)
        elif fs.exists(root):
            raise NotADirectoryError
        elif _MAGIC.search(root):
            base, entries = _glob_base(root), _match(fs, root)
        else:
            raise FileNotFoundError
    found = _walk(fs, base, entries)
    first = next(found, None)
    if first is None:
        raise InputError(f"{path} must hold at least one file, has none")
    yield first
    yield from found


def _glob_base(pattern: str) -> str:
    return _MAGIC.split(pattern)[0].rpartition("/")[0]


def _match(fs: Any, pattern: str) -> list[Any]:
    """Return what a glob matches, without what lies below a folder that it matches."""
    found = fs.glob(pattern, detail=True)
    folders = {name for name, entry in found.items() if entry["type"] == "directory"}
    return [
        entry
        for name, entry in found.items()
        if folders.isdisjoint(map(str, PurePosixPath(name).parents))
    ]


def _list_folder(fs: Any, folder: str) -> list[Any]:
    # Object stores may list a folder inside itself.
    return [e for e in fs.ls(folder, detail=True) if e["name"].rstrip("/") != folder]


def _walk(fs: Any, base: str, entries: list[Any]) -> Iterator[tuple[File, int]]:
    entries = sorted((e for e in entries if _shown(e["name"])), key=lambda e: str(e["name"]))
    for entry in entries:
        if entry["type"] == "file" or (entry.get("islink") and fs.isfile(entry["name"])):
            name = relative_name(entry["name"], base)
            yield File(_url(fs, entry["name"]), name), int(entry["size"])
    for entry in entries:
        if entry["type"] == "directory" and not entry.get("islink"):
            with reachable(entry["name"]):
                inner = _list_folder(fs, entry["name"])
            yield from _walk(fs, base, inner)


def look_at_files(
    path: str, advance: Callable[[int], None], endings: tuple[str, ...] | None = None
) -> Inputs:
    """Read all files that `path` stands for, in a folder only those with these endings if there are
    any; `advance` is called with the number of bytes read."""
    fs, root = open_filesystem(path)
    with reachable(path):
        is_tree = endings is None and not fs.isfile(root)
    files = [file for file, _ in walk_files(path)] if is_tree else find_files(path, endings or ())
    contents = Contents()
    for file in files:
        reader = ContentReader()
        contents.begin(file.name, packed=is_packed(file))
        with readable(file.url), fsspec.open(file.url, "rb") as stream:
            for block in read_blocks(stream):
                reader.see(block)
        content = reader.finish()
        contents.add(file.name, content)
        advance(content.size)
    return contents.finish()


def is_packed(file: File) -> bool:
    return file.url.lower().endswith(_GZIP)


def find_size(file: File) -> int:
    """Return the number of bytes of a file."""
    with readable(file.url), fsspec.open(file.url, "rb") as stream:
        return int(stream.seek(0, 2))


@contextmanager
def open_file(url: str, see: Callable[[bytes], None] | None = None) -> Iterator[IO[bytes]]:
    """Open a file for reading, decompressing it if its name says that it is a gzip file. Raises
    InputError if it cannot be opened or read to its end. `see` is called with the bytes as they
    are read from the file, in order: it must be read from beginning to end."""
    with readable(url), fsspec.open(url, "rb") as file:
        if see is not None:
            file = _Seen(file, see)
        if url.lower().endswith(_GZIP):
            with gzip.GzipFile(fileobj=file) as unpacked:
                yield cast(IO[bytes], unpacked)
        else:
            yield file


class _Seen:
    """A file that is read from beginning to end, while somebody looks on."""

    def __init__(self, file: IO[bytes], see: Callable[[bytes], None]) -> None:
        self._file = file
        self._see = see

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._see(data)
        return data


@contextmanager
def readable(path: str) -> Iterator[None]:
    """Turn errors while reading a file into an `InputError` that names the file."""
    path = clean_text(path)
    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"{path} must exist to be read, but there is no such file") from error
    except NotADirectoryError as error:
        raise InputError(f"{path} must be a folder, but is a file") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path} must be a whole gzip file, as its name says: {error}") from error
    except OSError as error:
        raise explain_outage(error, path) or InputError(
            f"{path} cannot be read: {error}"
        ) from error


@contextmanager
def reachable(path: str) -> Iterator[None]:
    """Like `readable`, but only for calls of a file system: a remote one may raise anything."""
    with readable(path):
        try:
            yield
        except OSError:
            raise
        except Exception as error:
            raise explain_outage(error, path) or InputError(
                f"{path} cannot be reached: {error}"
            ) from error


def open_filesystem(path: str) -> tuple[Any, str]:
    """Return the file system of a path, and the path on it."""
    try:
        fs, root = url_to_fs(path)
    except (ValueError, ImportError) as error:
        raise InputError(f"{path} must be a path or an fsspec URL: {error}") from error
    return fs, str(root)


def basename(path: str) -> str:
    return PurePosixPath(path).name


def relative_name(path: str, base: str) -> str:
    """Return a path relative to `base`, as clean text."""
    return clean_text(path.removeprefix(base).lstrip("/"))


def clean_text(text: str) -> str:
    """Return text that can be encoded as UTF-8: lone surrogates, which JSON escapes and file names
    may contain, become U+FFFD."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def clean_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Return labels that can be named and stored: tabs, line ends and other control characters
    become blanks, and empty labels are dropped. No document is lost because of them."""
    cleaned = (_CONTROLS.sub(" ", label).strip() for label in labels)
    return tuple(label for label in cleaned if label)


def read_blocks(file: IO[bytes], size: int | None = None) -> Iterator[bytes]:
    """Yield the next `size` bytes of a file, or all that are left, in blocks."""
    while size is None or size > 0:
        block = file.read(BLOCK if size is None else min(BLOCK, size))
        if not block:
            return
        if size is not None:
            size -= len(block)
        yield block


def split_lines(blocks: Iterable[bytes], max_bytes: int) -> Iterator[bytes | None]:
    """Yield the lines without their ends; None for a line of more than `max_bytes`, which is not
    held in memory."""
    rest, too_long = b"", False
    for block in blocks:
        first, *others = block.split(b"\n")
        rest += first
        for line in others:
            yield None if too_long or len(rest) > max_bytes else rest
            rest, too_long = line, False
        if len(rest) > max_bytes:
            rest, too_long = b"", True
    if rest or too_long:
        yield None if too_long else rest


def cut_pieces(file: IO[bytes], max_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Yield pieces of whole lines, each with the number of its first line, counted from 1.

    A line of more than `max_bytes` is cut to one byte more than that, which is still too long.
    """
    number, held = 1, b""
    for block in iter(lambda: file.read(PIECE), b""):
        end = block.rfind(b"\n") + 1
        if end:
            piece = held + block[:end]
            yield number, piece
            number += count_lines(piece)
            held = block[end:]
        else:
            held += block
        held = held[: max_bytes + 1]
    if held:
        yield number, held


def _url(fs: Any, path: str, given: str | None = None) -> str:
    """Return what opens `path` from any process: an absolute path if it is local, otherwise a
    URL."""
    if isinstance(fs, LocalFileSystem):
        return str(Path(path).absolute())
    return given or str(fs.unstrip_protocol(path))


def _shown(path: str) -> bool:
    return not basename(path).startswith(".")
