"""An on-disk cache of compiled kernels, shared by the processes of a user.

numba's own cache lies next to the sources and checks only the file of the kernel: it misses changes
in the kernels that this one calls, and uninstalling leaves it behind. Here the key covers every
source file a kernel may depend on, and the compilers. The first process that needs a kernel
compiles it while the others wait. If the folder is unusable, kernels are compiled in memory.

Loading compiled code means running it, so code is loaded only from a folder that nobody but this
user can write to.
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
except ImportError:  # Windows has no flock: two processes may compile the same kernel there
    fcntl = None  # type: ignore[assignment]

F = TypeVar("F", bound=Callable[..., Any])

COMPILERS = ("llvmlite", "numba", "numpy")
# numba settings that do not affect the generated code.
HARMLESS = {"NUMBA_CACHE_DIR", "NUMBA_DEBUG_CACHE", "NUMBA_NUM_THREADS"}
LOCK_TIMEOUT = 180.0  # seconds to wait for another process to compile a kernel
POLL_SECONDS = 0.05
MAX_AGE = 30 * 86400.0  # seconds after which unused code of other versions is removed

logger = logging.getLogger(__name__)


def digest_sources(sources: Path) -> str:
    """Hash everything that compiled code depends on except the types and the CPU: the modules under
    the folder `sources`, the versions of Python and the compilers, and numba's settings."""
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
    """A folder of code compiled from a module and those next to and below it."""

    def __init__(self, module: str) -> None:
        self._sources = Path(module).parent
        self._lock_timeout = LOCK_TIMEOUT
        self._silent = False
        try:
            self._digest = digest_sources(self._sources)
            user = f"-{os.geteuid()}" if hasattr(os, "geteuid") else ""
            self.folder: Path | None = cache_folder() / f"kernels{user}" / self._digest
        except Exception as error:  # no sources, no home folder
            self.folder = None
            self.excuse(error)

    @cached_property
    def usable(self) -> bool:
        """Whether code can be loaded from the folder.

        The first access in a process creates the folder, marks it as used, and removes code that
        has not been used for a long time.
        """
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
                        "%s must belong to the user of this process, and nobody else may be able to"
                        " write to it: compiled code is not cached",
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
        """Return what was written under `name`, or None if it is missing or damaged."""
        assert self.folder is not None
        try:
            content = (self.folder / name).read_bytes()
        except FileNotFoundError:
            return None
        digest, payload = content[:32], content[32:]
        if hashlib.sha256(payload).digest() != digest:
            return None
        return pickle.loads(payload)  # noqa: S301  only this user can write there

    def write(self, name: str, payload: bytes) -> None:
        """Write a pickle atomically."""
        assert self.folder is not None
        if digest_sources(self._sources) != self._digest:
            return  # The sources changed after this process imported them.
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
        """Wait until no other process compiles the kernel `name`.

        Return a handle for `unlock`, or None if there is no locking or the wait timed out.
        """
        if fcntl is None:
            return None
        assert self.folder is not None
        handle = os.open(self.folder / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        end = time.monotonic() + self._lock_timeout
        try:
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return handle
                except BlockingIOError:
                    if time.monotonic() >= end:
                        # A hung process may hold the locks of many kernels: wait only once.
                        self._lock_timeout = 0.0
                        break
                    time.sleep(POLL_SECONDS)
        except OSError as error:
            self.excuse(error)
        os.close(handle)
        return None

    def unlock(self, handle: int) -> None:
        assert fcntl is not None
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)  # also in processes forked since
        os.close(handle)

    def is_empty(self) -> bool:
        """Return whether the cache works but has no code yet."""
        with contextlib.suppress(OSError):
            return self.usable and self.folder is not None and not any(self.folder.iterdir())
        return False

    def is_compiling(self) -> bool:
        """Return whether a process on this machine is compiling a kernel, judging by the locks."""
        if fcntl is None or self.folder is None:
            return False
        with contextlib.suppress(OSError):
            for lock in self.folder.glob("*.lock"):
                if not lock.with_suffix("").exists() and _is_held(lock):
                    return True
        return False

    def excuse(self, reason: object) -> None:
        """Log, once, why compiled code is not cached."""
        if not self._silent:
            self._silent = True
            logger.debug("compiled code is not cached in %s: %s", self.folder, reason)

    def _remove_unused(self, parent: Path) -> None:
        """Remove old code; a process that still needs it compiles it in memory."""
        with contextlib.suppress(OSError):
            for folder in parent.iterdir():
                with contextlib.suppress(OSError):
                    old = folder.lstat().st_mtime < time.time() - MAX_AGE
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
    """The kernels that a thread is compiling, innermost last: names and locks, if obtained."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, int | None]] = []


_pending = _Pending()


class KernelCache:
    """Implements numba's cache interface for one kernel.

    numba calls it under a lock of its own, so only one thread of a process compiles.
    """

    def __init__(self, function: Callable[..., Any], store: Store) -> None:
        self._function = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"
        self._store = store

    @property
    def cache_path(self) -> str | None:
        return str(self._store.folder) if self._store.folder else None

    def enable(self) -> None:
        """Do nothing: the cache is always enabled."""

    def disable(self) -> None:
        """Do nothing: numba never calls this."""

    def flush(self) -> None:
        """Do nothing: entries never go stale."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled code for the types `sig`, or None if this process must compile it."""
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
        """Store the code that was compiled after `load_overload` returned None."""
        from numba.core.serialize import dumps

        try:
            if not _pending.entries:
                return
            name, _ = _pending.entries[-1]
            if not compiled.library.has_dynamic_globals:  # addresses of this process
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
    """Make numba cache what it compiles for a kernel in `store`."""
    if not hasattr(dispatcher, "_cache"):  # compilation is disabled, or numba has changed
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
    """Release the locks taken in the block, even if compilation fails."""
    before = len(_pending.entries)
    try:
        yield
    finally:
        while len(_pending.entries) > before:
            _, lock = _pending.entries.pop()
            if lock is not None:
                store.unlock(lock)
