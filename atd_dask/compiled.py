"""Compiled kernels, kept between processes in the cache folder of the user.

numba would keep them beside the sources and look at the file of the kernel alone: a change in a
kernel that it calls would go unseen, and an uninstall would leave them behind. Here they are keyed
by all the sources that they may be made from, and by what compiles them. The first process that
misses a kernel compiles it, and the others wait for it. Whatever is wrong with the folder, a kernel
is compiled in memory.

Loading compiled code is running it: only what this user alone can write is loaded.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import pickle
import platform
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

from atd_dask.cache import cache_folder

try:
    import fcntl
except ImportError:  # not on Windows: there, two processes may compile the same kernel
    fcntl = None  # type: ignore[assignment]

F = TypeVar("F", bound=Callable[..., Any])

COMPILERS = ("llvmlite", "numba", "numpy")
# Settings of numba that change nothing in the code.
HARMLESS = {"NUMBA_CACHE_DIR", "NUMBA_DEBUG_CACHE", "NUMBA_NUM_THREADS"}
PATIENCE = 180.0  # seconds to wait for a process that compiles the same kernel, and may be hung
PAUSE = 0.05  # seconds between two looks at a lock
UNUSED = 30 * 86400.0  # seconds after which code of other sources is removed

logger = logging.getLogger(__name__)


def digest_sources(sources: Path) -> str:
    """Names all that compiled code depends on, but for its types and the processor: every module
    under the folder `sources`, the versions of Python and of the compilers, and their settings."""
    digest = hashlib.sha256()
    for file in (Path(__file__), *sorted(sources.rglob("*.py"))):
        content = file.read_bytes()
        digest.update(f"{file.name} {len(content)}\n".encode() + content)
    versions = [f"{name} {metadata.version(name)}" for name in COMPILERS]
    settings = [
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if name.startswith("NUMBA_") and name not in HARMLESS
    ]
    environment = [platform.python_implementation(), platform.python_version(), *versions]
    digest.update("\n".join([*environment, *settings]).encode())
    return digest.hexdigest()[:32]


class Store:
    """A folder of compiled code that was made from a module and those beside and below it."""

    def __init__(self, module: str) -> None:
        self._sources = Path(module).parent
        self._patience = PATIENCE
        self._silent = False
        try:
            self._digest = digest_sources(self._sources)
            user = f"-{os.geteuid()}" if hasattr(os, "geteuid") else ""
            self.folder: Path | None = cache_folder() / f"kernels{user}" / self._digest
        except Exception as error:  # no sources, no home
            self.folder = None
            self.excuse(error)

    @cached_property
    def usable(self) -> bool:
        """Whether the folder is there and may be loaded from. The first use in a process makes it,
        marks it as used and removes what has not been used for long."""
        if self.folder is None:
            return False
        try:
            new = not self.folder.exists()
            self.folder.parent.parent.mkdir(parents=True, exist_ok=True)
            for folder in (self.folder.parent, self.folder):
                folder.mkdir(mode=0o700, exist_ok=True)
                if not _is_private(folder):
                    self._silent = True
                    logger.warning(
                        "%s must belong to the user of this process, and nobody else may write to"
                        " it: compiled code is neither loaded from there nor kept",
                        folder,
                    )
                    return False
        except OSError as error:
            self.excuse(error)
            return False
        with contextlib.suppress(OSError):
            os.utime(self.folder)
        if new:
            self._remove_unused(self.folder.parent)
        return True

    def read(self, name: str) -> Any:
        """What was written under a name; None if there is nothing, or if it is damaged."""
        assert self.folder is not None
        try:
            content = (self.folder / name).read_bytes()
        except FileNotFoundError:
            return None
        digest, payload = content[:32], content[32:]
        if hashlib.sha256(payload).digest() != digest:
            return None
        return pickle.loads(payload)  # noqa: S301  the folder is this user's alone

    def write(self, name: str, payload: bytes) -> None:
        """Writes a pickle, whole or not at all."""
        assert self.folder is not None
        if digest_sources(self._sources) != self._digest:
            return  # They were changed after this process had imported some of them.
        handle, temporary = tempfile.mkstemp(dir=self.folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(payload).digest() + payload)
            Path(temporary).replace(self.folder / name)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
            raise

    def lock(self, name: str) -> int | None:
        """Waits until no other process compiles what has this name; gives what `unlock` takes, or
        None where there are no locks or the other process takes too long."""
        if fcntl is None:
            return None
        assert self.folder is not None
        handle = os.open(self.folder / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        end = time.monotonic() + self._patience
        try:
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return handle
                except BlockingIOError:
                    if time.monotonic() >= end:
                        # One that is hung may hold the locks of many kernels.
                        self._patience = 0.0
                        break
                    time.sleep(PAUSE)
        except OSError as error:
            self.excuse(error)
        os.close(handle)
        return None

    def unlock(self, handle: int) -> None:
        assert fcntl is not None
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)  # also for processes that were forked meanwhile
        os.close(handle)

    def is_empty(self) -> bool:
        """Whether code can be kept, but none is yet."""
        with contextlib.suppress(OSError):
            return self.usable and self.folder is not None and not any(self.folder.iterdir())
        return False

    def is_compiling(self) -> bool:
        """Whether a process of this machine compiles a kernel now, as far as locks tell."""
        if fcntl is None or self.folder is None:
            return False
        with contextlib.suppress(OSError):
            for lock in self.folder.glob("*.lock"):
                if not lock.with_suffix("").exists() and _is_held(lock):
                    return True
        return False

    def excuse(self, reason: object) -> None:
        """Says once why compiled code is not kept."""
        if not self._silent:
            self._silent = True
            logger.debug("compiled code is not kept in %s: %s", self.folder, reason)

    def _remove_unused(self, parent: Path) -> None:
        """A process that still uses what is removed compiles it in memory."""
        with contextlib.suppress(OSError):
            for folder in parent.iterdir():
                with contextlib.suppress(OSError):
                    old = folder.lstat().st_mtime < time.time() - UNUSED
                    if old and re.fullmatch("[0-9a-f]{32}", folder.name):
                        shutil.rmtree(folder, ignore_errors=True)


def _is_held(lock: Path) -> bool:
    handle = os.open(lock, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _is_private(folder: Path) -> bool:
    if not hasattr(os, "geteuid"):
        return True
    found = folder.stat()
    return found.st_uid == os.geteuid() and not found.st_mode & 0o022


class _Pending(threading.local):
    """What a thread is compiling now, the inner kernel last: names, and locks if they were had."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, int | None]] = []


_pending = _Pending()


class KernelCache:
    """What numba asks for compiled code of one kernel, and gives it to.

    numba calls it under a lock of its own, so of one process only one thread compiles.
    """

    def __init__(self, function: Callable[..., Any], store: Store) -> None:
        self._function = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"
        self._store = store

    @property
    def cache_path(self) -> str | None:
        return str(self._store.folder) if self._store.folder else None

    def enable(self) -> None:
        """It always is."""

    def disable(self) -> None:
        """numba asks for that nowhere."""

    def flush(self) -> None:
        """Nothing here is stale."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled code for the types `sig`, or None. After None this process is the one to
        compile it, unless another one took too long."""
        try:
            if not self._store.usable:
                return None
            target_context.refresh()
            name = self._name(sig, target_context)
            found = self._load(name, sig, target_context)
            if found is None:
                lock = self._store.lock(name)
                _pending.entries.append((name, lock))
                found = self._load(name, sig, target_context)
            return found
        except Exception as error:
            self._store.excuse(error)
            return None

    def save_overload(self, sig: Any, compiled: Any) -> None:
        """Keeps the code that was compiled after `load_overload` found none."""
        from numba.core.serialize import dumps

        try:
            if not _pending.entries:
                return
            name, _ = _pending.entries[-1]
            if not compiled.library.has_dynamic_globals:  # addresses in this process
                self._store.write(name, dumps((sig, compiled._reduce())))
        except Exception as error:
            self._store.excuse(error)

    def _name(self, sig: Any, target_context: Any) -> str:
        key = repr((sig, target_context.codegen().magic_tuple()))
        return f"{self._function}-{hashlib.sha256(key.encode()).hexdigest()[:32]}"

    def _load(self, name: str, sig: Any, target_context: Any) -> Any:
        from numba.core.compiler import CompileResult

        try:
            found = self._store.read(name)
            if found is None or found[0] != sig:
                return None
            return CompileResult._rebuild(target_context, *found[1])
        except Exception as error:
            self._store.excuse(error)
            return None


def keep(dispatcher: F, store: Store) -> F:
    """Lets numba keep what it compiles for a kernel in `store`."""
    if not hasattr(dispatcher, "_cache"):  # numba was told not to compile, or has changed
        return dispatcher
    compile_once = dispatcher.compile  # type: ignore[attr-defined]

    def compile_kernel(sig: Any) -> Any:
        with _releasing(store):
            return compile_once(sig)

    dispatcher._cache = KernelCache(dispatcher.py_func, store)  # type: ignore[attr-defined]
    dispatcher.compile = compile_kernel  # type: ignore[attr-defined]
    return dispatcher


@contextlib.contextmanager
def _releasing(store: Store) -> Iterator[None]:
    """Frees the locks that are taken in the block, also where compiling fails."""
    before = len(_pending.entries)
    try:
        yield
    finally:
        while len(_pending.entries) > before:
            _, lock = _pending.entries.pop()
            if lock is not None:
                store.unlock(lock)
