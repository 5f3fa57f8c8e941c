"""Locations of stores: a local folder, or a prefix behind any fsspec URL.

A store is written next to its location under a temporary name, and moved there once it is complete.
The file `MANIFEST` makes it a store: it is written last and removed first, so a store is complete
or does not open.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atd_dask.errors import AtdError, InputError
from atd_dask.outages import explain_outage, leave_outages_to_requests

if TYPE_CHECKING:
    from zarr.abc.store import Store

MANIFEST = "manifest.json"
MARK = "atd-dask-output.json"  # marks a folder as ours
MARK_FORMAT = "atd-dask-output/1"
_DEPTH = 4  # how deep stores are in an output folder, as in sweeps/0001/corpus/new.zarr

ANSWER = 120.0  # seconds that an object store has to take a small object
SLOWEST = 2**20  # bytes that it must take in a second
FLUSHED_AT_ONCE = 8  # files

# Stands in for the manifest while a store is written, and while its objects are replaced one by
# one: the store does not open, but is still recognised as ours.
UNFINISHED = b'{"format": "atd-dask-unfinished"}\n'


def limit_seconds(n_bytes: int) -> float:
    """Return how long an object store may take to store an object. Its client may wait forever for
    leave to send the content."""
    return ANSWER + n_bytes / SLOWEST


def put(backend: Any, path: str, content: bytes, **options: Any) -> None:
    """Write a file. Raises TimeoutError if an object store does not take it in time."""
    if getattr(backend, "async_impl", False):
        options["timeout"] = limit_seconds(len(content))
    backend.pipe_file(path, content, **options)


@contextlib.contextmanager
def _reaching(url: str) -> Iterator[None]:
    """Turn whatever a file system says about a location that cannot be used into one sentence."""
    try:
        yield
    except AtdError:
        raise
    except Exception as error:
        outage = explain_outage(error, url)
        if outage is not None:
            raise outage from error
        reason = str(error) or type(error).__name__
        raise InputError(f"{url} cannot be used: {reason}") from error


@contextlib.contextmanager
def _changing(url: str) -> Iterator[None]:
    """Let what goes wrong while files are written or removed say where."""
    try:
        yield
    except Exception as error:
        outage = explain_outage(error, url)
        if outage is not None:
            raise outage from error
        name_location(error, url)
        raise


def name_location(error: BaseException | None, url: str) -> None:
    """Add the location to an error of the operating system that lacks it, such as that of a full
    disk."""
    if isinstance(error, OSError) and error.errno is not None and error.filename is None:
        error.filename = url


@dataclass(frozen=True, slots=True)
class Location:
    """A folder or a prefix; `url` is an absolute path if it is local."""

    url: str
    local: bool

    @classmethod
    def of(cls, url: str | os.PathLike[str]) -> Location:
        text = os.fspath(url)
        for scheme in ("file://", "local://"):
            text = text.removeprefix(scheme)
        if "://" not in text:
            return cls(str(Path(text).resolve()), local=True)
        # Bulk operations of fsspec read these as patterns.
        if any(sign in text for sign in "*?["):
            raise InputError(f"the URL of a store must not contain * ? or [, got {text}")
        if not text.partition("://")[2].strip("/"):
            raise InputError(f"the URL of a store must name a place, got {text}")
        return cls(text.rstrip("/"), local=False)

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2] if not self.local else Path(self.url).name

    def sibling(self, name: str) -> Location:
        if self.local:
            return Location(str(Path(self.url).with_name(name)), local=True)
        if "/" not in self._backend()[1]:
            raise InputError(f"a store needs a name below its bucket, got {self.url}")
        return Location(f"{self.url.rpartition('/')[0]}/{name}", local=False)

    def _backend(self) -> tuple[Any, str]:
        """Return the file system, and the path of this location in it."""
        import fsspec

        if self.local:
            return fsspec.filesystem("file", auto_mkdir=True), self.url
        with _reaching(self.url):
            backend, path = fsspec.url_to_fs(self.url)
        if backend.async_impl:
            leave_outages_to_requests(backend.loop)
        return backend, path

    def zarr_store(self, *, read_only: bool) -> Store:
        from zarr.storage import FsspecStore, LocalStore

        if self.local:
            return LocalStore(self.url, read_only=read_only)
        return FsspecStore.from_url(self.url, read_only=read_only)

    def read(self, name: str) -> bytes | None:
        """Return the bytes of a file, or None if there is no such file."""
        backend, path = self._backend()
        with _reaching(self.url):
            try:
                content: bytes = backend.cat_file(f"{path}/{name}")
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return None
        return content

    def write(self, name: str, content: bytes) -> None:
        backend, path = self._backend()
        with _changing(self.url):
            put(backend, f"{path}/{name}", content)

    def files(self) -> dict[str, int]:
        """Return every file below this location with its size, sorted by name."""
        backend, path = self._backend()
        with _reaching(self.url):
            backend.invalidate_cache()
            found = backend.find(path, detail=True)
        sizes = {
            name[len(path) :].lstrip("/"): int(info["size"] or 0) for name, info in found.items()
        }
        return dict(sorted(sizes.items()))

    def remove(self) -> None:
        """Remove everything below this location."""
        if self.local:
            shutil.rmtree(self.url, ignore_errors=True)
        else:
            self.remove_files(list(self.files()))

    def remove_files(self, names: list[str]) -> None:
        backend, path = self._backend()
        if names:
            with _changing(self.url):
                backend.rm([f"{path}/{name}" for name in names])

    def copy_to(self, target: Location, names: list[str]) -> None:
        backend, path = self._backend()
        _, target_path = target._backend()
        with _changing(target.url):
            backend.copy(*([f"{root}/{name}" for name in names] for root in (path, target_path)))

    def names(self) -> list[str]:
        """Return the names directly below this location, or [] if there is nothing."""
        backend, path = self._backend()
        with _reaching(self.url):
            backend.invalidate_cache()
            try:
                found = backend.ls(path, detail=False)
            except FileNotFoundError:
                return []
        return sorted(name.rstrip("/").rpartition("/")[2] for name in found)

    def is_file(self) -> bool:
        if self.local:  # a device will not do either
            return Path(self.url).exists() and not Path(self.url).is_dir()
        backend, path = self._backend()
        with _reaching(self.url):
            return bool(backend.isfile(path))

    def check_replaceable(self) -> None:
        """Check that this location is free or holds a store of ours."""
        names = self.names()
        manifest = self.read(MANIFEST) if MANIFEST in names else None
        ours = manifest is not None and (b"atd-dask" in manifest or "zarr.json" in names)
        # Without its manifest it is still ours if the folder around it is.
        if names and not ours and not ("zarr.json" in names and self._is_in_output()):
            raise InputError(
                f"the location of a store must be free or hold a store of atd-dask, but {self.url}"
                " holds something else: choose another location, or clear this one"
            )

    def _is_in_output(self) -> bool:
        """Return whether this is inside an output folder that carries our mark."""
        folder = self.url
        for _ in range(_DEPTH):
            folder = folder.rpartition("/")[0]
            if folder and MARK_FORMAT.encode() in (Location(folder, self.local).read(MARK) or b""):
                return True
        return False

    def partials(self) -> list[Location]:
        """Return the temporary stores of this location."""
        parent = Location(str(Path(self.url).parent), True) if self.local else self.sibling("")
        start = f".{self.name}.partial-"
        return [self.sibling(name) for name in parent.names() if name.startswith(start)]


class Partial:
    """A store that is being written, under a temporary name next to its location.

    Two writers of one location do not mix: the last to finish wins. What a dead writer left behind
    is removed by the next one that finishes. Only on a local disk can it be known whether a writer
    is alive; elsewhere a living one loses its files too, and fails when it tries to finish.
    """

    def __init__(self, target: Location) -> None:
        target.check_replaceable()
        self.target = target
        self.location = self._fresh()
        # Fails early if the location is not writable.
        with _reaching(target.url):
            self.location.write(MANIFEST, UNFINISHED)
        self._lock = _lock_folder(self.location.url) if self.location.local else None

    def _fresh(self) -> Location:
        return self.target.sibling(f".{self.target.name}.partial-{secrets.token_hex(8)}")

    def flush(self) -> None:
        """Have a local disk take what was written so far."""
        if self.location.local:
            _flush_folder(Path(self.location.url))

    def publish(self, names: Collection[str], manifest: bytes) -> None:
        """Move the files to their location, replacing an older store, and clean up around it."""
        self.target.check_replaceable()
        if set(self.location.files()) != {MANIFEST, *names}:
            raise InputError(
                f"only one writer may make {self.target.url} at a time, but something else "
                "touched the files of this one: run it again alone"
            )
        if self.location.local:
            self.location.write(MANIFEST, manifest)
            self._rename()
        else:
            self._copy(sorted(names), manifest)
        self._unlock()
        # The store is complete: what cannot be cleaned up now is left to the next writer.
        with contextlib.suppress(Exception):
            for partial in self.target.partials():
                if not (partial.local and _is_held(partial.url)):
                    partial.remove()

    def discard(self) -> None:
        """Remove what was written. If that fails, the next writer does it."""
        with contextlib.suppress(Exception):
            self.location.remove()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _rename(self) -> None:
        source, target = Path(self.location.url), Path(self.target.url)
        # Otherwise a power failure could leave the new name with empty files, and the old store
        # gone.
        _flush_folder(source)
        if target.exists():
            aside = target.rename(self._fresh().url)
            try:
                source.rename(target)
            except OSError:
                aside.rename(target)
                raise
        else:
            source.rename(target)
        _flush(target.parent)

    def _copy(self, names: list[str], manifest: bytes) -> None:
        old = self.target.files()
        if old:
            self.target.write(MANIFEST, UNFINISHED)
            self.target.remove_files([name for name in old if name != MANIFEST])
        self.location.copy_to(self.target, names)
        self.target.write(MANIFEST, manifest)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _flush_folder(folder: Path) -> None:
    """Flush everything below a folder, several files at a time: each one waits for the disk."""
    paths = [Path(path, name) for path, _, names in os.walk(folder) for name in (*names, os.curdir)]
    with ThreadPoolExecutor(FLUSHED_AT_ONCE) as pool:
        list(pool.map(_flush_all, (paths[n::FLUSHED_AT_ONCE] for n in range(FLUSHED_AT_ONCE))))


def _flush_all(paths: Iterable[Path]) -> None:
    for path in paths:
        _flush(path)


def _lock_folder(folder: str) -> int | None:
    """Lock a folder until the handle is closed or this process ends; return None if it cannot be
    locked.

    Raises BlockingIOError if another process holds it.
    """
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        if isinstance(error, BlockingIOError):
            raise
        return None
    return handle


def _is_held(folder: str) -> bool:
    try:
        handle = _lock_folder(folder)
    except BlockingIOError:
        return True
    if handle is not None:
        os.close(handle)
    return False
