"""Locks: only one run at a time writes to an output folder. A file there names that run.

A lock names a process by its host, its number and its start. The start is counted from the boot of
the host, so that setting the clock changes nothing. On the same host we can tell whether the
process is alive. A lock of another host counts as stale if it looks old by the clocks and is then
not renewed while we watch it.

Taking a lock is atomic on a local disk, and on object stores that can create an object only if it
does not exist. On other stores, and when a stale lock is taken over, the lock is read again a
moment after it was written, and the last writer has it.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from atd_dask.errors import AtdError, InputError, OutageError
from atd_dask.outages import explain_outage
from atd_dask.storage.atomic_files import join, write_file
from atd_dask.storage.locations import Location, put

NAME = "run.lock"
EXPIRY = 120.0  # seconds without renewal after which a lock is stale
RENEWAL = 20.0  # seconds between renewals
OBSERVATION = 30.0  # seconds to watch the lock of another host before taking it over
LAST_RENEWAL = 10.0  # seconds that the end of a run waits for a renewal in progress
PAUSE = 0.5  # seconds to wait for another writer of the same lock
# Seconds by which two readings of the start of the same process may differ: by the clock (locks of
# earlier versions, and of systems other than Linux), and since boot.
CLOCK_TOLERANCE = 10.0
BOOT_TOLERANCE = 0.05


class LockedError(AtdError):
    """Another run is writing to the folder."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that writes to a folder, and since when."""

    host: str
    realm: str  # distinguishes containers with the same host name, which number their own processes
    pid: int
    # When the process started, because process numbers are reused: in seconds since boot, or by the
    # clock if that is unknown.
    born: float
    since: float
    renewed: float
    token: str
    boot: str = ""  # the boot that `born` is counted from; empty if it is a time by the clock

    @classmethod
    def here(cls) -> Owner:
        now = time.time()
        boot = _find_boot()
        born = _find_birth(os.getpid(), boot) or now
        token = secrets.token_hex(8)
        return cls(socket.gethostname(), _find_realm(), os.getpid(), born, now, now, token, boot)

    @classmethod
    def read(cls, content: bytes) -> Owner | None:
        """Return the owner in a lock file, or None if the file is incomplete."""
        try:
            told = json.loads(content)
            return cls(
                **{name: kind(told[name]) for name, kind in _FIELDS.items()},
                boot=str(told.get("boot", "")),
            )
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            return None

    def write(self) -> bytes:
        return json.dumps(asdict(self), indent=1).encode() + b"\n"

    def is_gone(self) -> bool:
        """Return whether the lock is stale."""
        if not self.is_here():
            return time.time() > self.renewed + EXPIRY
        if self.boot and self.boot != _find_boot():
            return True
        born = _find_birth(self.pid, self.boot)
        tolerance = BOOT_TOLERANCE if self.boot else CLOCK_TOLERANCE
        return born is None or abs(born - self.born) > tolerance

    def is_here(self) -> bool:
        """Return whether the process is on this host, where it can be looked up."""
        return (self.host, self.realm) == (socket.gethostname(), _find_realm())

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.since, UTC)
        return f"process {self.pid} on {self.host}, since {since:%Y-%m-%d %H:%M:%S} UTC"


_FIELDS: dict[str, type] = {
    "host": str,
    "realm": str,
    "pid": int,
    "born": float,
    "since": float,
    "renewed": float,
    "token": str,
}


# The owner of an incomplete lock.
UNKNOWN = Owner("an unknown host", "", 0, 0.0, 0.0, 0.0, "")


def _find_birth(pid: int, boot: str) -> float | None:
    """Return when a process started, counted from `boot` if one is given: None if there is no such
    process, NaN if the system does not say."""
    import psutil

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return _count_since_boot(pid) if boot else float(process.create_time())
    except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
        return None
    except psutil.AccessDenied:
        return math.nan


def _count_since_boot(pid: int) -> float:
    """Return when a process started, in seconds since boot. psutil would add the time of boot by
    the current clock, which changes when the clock is set."""
    # The program's name, in brackets, may contain anything; the start is the 20th field after it.
    fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _find_boot() -> str:
    """Return an identifier of this boot of the host, empty if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _find_realm() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _interrupt_main_thread() -> None:
    """Interrupt the main thread as Ctrl-C does, even while it waits."""
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGINT)


@contextlib.contextmanager
def lock_folder(output: str, say: Callable[[str], None]) -> Iterator[None]:
    """Keep other runs out of the folder or URL `output` during the block.

    A stale lock is taken over, and `say` is called with a sentence about it.

    Raises
    ------
    LockedError
        If another run holds the lock, or takes it over because this process did not renew it in
        time.
    """
    lock = FolderLock(output)
    try:
        before = lock.take(say)
        if before is not None:
            say(f"resuming in {output} after {before}, which ended without removing its lock")
        with lock.renewing():
            yield
    except KeyboardInterrupt:
        if lock.lost:
            raise LockedError(
                f"{output} was taken over by another run while this one was suspended or could not"
                " reach it: look there before you start it again"
            ) from None
        raise
    except OutageError:
        lock.abandon()
        raise
    finally:
        lock.release()


def read_owner(output: str) -> Owner | None:
    """Return the run that is writing to a folder, or None."""
    owner = Owner.read(Location.of(output).read(NAME) or b"")
    return None if owner is None or owner.is_gone() else owner


class FolderLock:
    """The lock of one folder, as one process sees it."""

    def __init__(self, output: str) -> None:
        self.lost = False
        self._output = output
        self._location = Location.of(output)
        self._mine = Owner.here()
        self._abandoned = False

    def take(self, say: Callable[[str], None] = lambda line: None) -> Owner | None:
        """Take the lock, and return the owner of a stale lock that it replaces. `say` is called
        before waiting."""
        before = None
        for _ in range(10):
            content = self._read()
            found = UNKNOWN if content is None else Owner.read(content) or UNKNOWN
            if content is None:
                written = self._create()
            elif found.is_gone() and not self._is_renewed(found, content, say):
                before = found
                written = self._replace(content)
            else:
                raise LockedError(self._explain(found))
            if written:
                if before is not None or not self._location.local:
                    time.sleep(PAUSE)
                if self._holds():
                    return before
        raise LockedError(f"the lock {join(self._output, NAME)} keeps changing: try again")

    def _is_renewed(self, found: Owner, content: bytes, say: Callable[[str], None]) -> bool:
        """Return whether a lock that looks old by the clocks, which may be wrong, is renewed while
        we watch."""
        if found.is_here() or found == UNKNOWN:
            return False
        say(
            f"{self._output} seems to have been abandoned by {found}: waiting {OBSERVATION:.0f} s"
            " to see whether that process is still alive"
        )
        end = time.monotonic() + OBSERVATION
        while time.monotonic() < end:
            time.sleep(PAUSE)
            now = self._location.read(NAME) or b""
            if now != content:
                owner = Owner.read(now)
                return owner is not None and owner.token == found.token
        return False

    def abandon(self) -> None:
        """Leave the lock to expire or to be taken over, if it cannot be reached."""
        self._abandoned = True

    def release(self) -> None:
        """Remove the lock if it is ours. If that fails, it expires."""
        with contextlib.suppress(Exception):
            if not self._abandoned and self._holds():
                self._remove()

    @contextlib.contextmanager
    def renewing(self) -> Iterator[None]:
        """Renew the lock during the block."""
        ended = threading.Event()

        def renew() -> None:
            while not ended.wait(RENEWAL):
                # If the store cannot be reached now, try again later.
                with contextlib.suppress(Exception):
                    if not self._holds():
                        if ended.is_set():
                            return
                        self.lost = True
                        _interrupt_main_thread()
                        return
                    self._write(replace(self._mine, renewed=time.time()))

        thread = threading.Thread(target=renew, name="atd-dask-lock", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(LAST_RENEWAL)

    def _read(self) -> bytes | None:
        """Return the current lock. Wait a moment for one that is incomplete."""
        content = self._location.read(NAME)
        for _ in range(5):
            if content is None or Owner.read(content) is not None:
                break
            time.sleep(0.1)
            content = self._location.read(NAME)
        return content

    def _holds(self) -> bool:
        owner = Owner.read(self._location.read(NAME) or b"")
        return owner is not None and owner.token == self._mine.token

    def _create(self) -> bool:
        """Write the lock unless there is one."""
        content = self._mine.write()
        try:
            if not self._location.local:
                return self._create_object(content)
            Path(self._location.url).mkdir(parents=True, exist_ok=True)
            handle = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            if self._location.local and not Path(self._location.url).is_dir():
                raise InputError(f"output must be a folder, but {self._output} is a file") from None
            return False
        except Exception as error:
            reason = getattr(error, "strerror", None) or error
            raise explain_outage(error, self._output) or InputError(
                f"output must be writable, got {self._output}: {reason}"
            ) from error
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        return True

    def _create_object(self, content: bytes) -> bool:
        import fsspec

        backend, path = fsspec.url_to_fs(join(self._location.url, NAME))
        try:
            put(backend, path, content, mode="create")
        except FileExistsError:
            return False
        except (TypeError, ValueError, NotImplementedError, OSError):
            # This store cannot do that, or reports an existing object in its own way.
            if self._location.read(NAME) is not None:
                return False
            self._write(self._mine)
        return True

    def _replace(self, found: bytes) -> bool:
        """Replace the lock that was found, unless it has changed."""
        with self._alone():
            if self._location.read(NAME) != found:
                return False
            self._write(self._mine)
        return True

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes of this host from replacing the same lock."""
        if not self._location.local:
            yield
            return
        import fcntl

        handle = os.open(self._location.url, os.O_RDONLY)
        try:
            # If the file system has no such locks, read the lock again, as on other stores.
            with contextlib.suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _write(self, owner: Owner) -> None:
        write_file(self._path, owner.write())

    def _remove(self) -> None:
        if self._location.local:
            Path(self._path).unlink()
        else:
            self._location.remove_files([NAME])

    @property
    def _path(self) -> str:
        return join(self._location.url, NAME)

    def _explain(self, owner: Owner) -> str:
        expires = ""
        if not owner.is_here():
            seconds = max(0.0, owner.renewed + EXPIRY - time.time())
            expires = f"; if it is dead, its lock expires in {seconds:.0f} s"
        return (
            f"only one run may write to {self._output} at a time, but {owner}, is using it:"
            f" wait for it or stop it, or choose another folder with --output{expires}"
        )
