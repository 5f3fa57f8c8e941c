"""One run at a time in an output folder: a file there names the run that writes it.

Who owns a lock is a process: its host, its number and when it started. On the same host it is known
whether that process is alive. Elsewhere a lock counts as left behind once its owner has not
renewed it for a while, by the clocks of the two hosts.

On a local disk taking a lock is atomic. On an object store it is where the store can create an
object on condition that there is none; elsewhere, and where a lock is taken over, it is read again
a moment after it was written, and the last writer has it.
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

from atd_dask.errors import AtdError, InputError
from atd_dask.storage.atomic_files import join, write_file
from atd_dask.storage.locations import Location

NAME = "run.lock"
EXPIRY = 120.0  # seconds after which a lock that was not renewed is left behind
RENEWAL = 20.0  # seconds between renewals
PAUSE = 0.5  # seconds in which another one who writes the same lock would show himself
CLOCK_TOLERANCE = 10.0  # seconds by which the start of one and the same process may seem to differ


class LockedError(AtdError):
    """Another run writes the folder."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that writes a folder, and since when."""

    host: str
    realm: str  # tells containers with the same host name apart: each counts its own processes
    pid: int
    born: float  # when the process started: its number is given again after its end
    since: float
    renewed: float
    token: str

    @classmethod
    def here(cls) -> Owner:
        now = time.time()
        born = _find_birth(os.getpid()) or now
        token = secrets.token_hex(8)
        return cls(socket.gethostname(), _find_realm(), os.getpid(), born, now, now, token)

    @classmethod
    def read(cls, content: bytes) -> Owner | None:
        """The owner in a lock file, or None where the file is not whole."""
        try:
            told = json.loads(content)
            return cls(**{name: kind(told[name]) for name, kind in _FIELDS.items()})
        except (ValueError, TypeError, KeyError):
            return None

    def write(self) -> bytes:
        return json.dumps(asdict(self), indent=1).encode() + b"\n"

    def is_gone(self) -> bool:
        """Whether the lock was left behind."""
        if (self.host, self.realm) == (socket.gethostname(), _find_realm()):
            born = _find_birth(self.pid)
            return born is None or abs(born - self.born) > CLOCK_TOLERANCE
        return time.time() > self.renewed + EXPIRY

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


# Who left behind a lock that is not whole.
UNKNOWN = Owner("an unknown host", "", 0, 0.0, 0.0, 0.0, "")


def _find_birth(pid: int) -> float | None:
    """When a process started: None if there is none of this number, NaN if that is kept secret."""
    import psutil

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return float(process.create_time())
    except psutil.NoSuchProcess:
        return None
    except psutil.AccessDenied:
        return math.nan


def _find_realm() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _interrupt_main_thread() -> None:
    """As Ctrl-C does, also while it waits for something."""
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGINT)


@contextlib.contextmanager
def lock_folder(output: str, say: Callable[[str], None]) -> Iterator[None]:
    """Keeps other runs from the folder or URL `output` while the block runs.

    A lock that was left behind is taken over, and `say` hears of it. A `LockedError` if another run
    holds it, or takes it over because this process was not heard of for too long.
    """
    lock = FolderLock(output)
    try:
        before = lock.take()
        if before is not None:
            say(f"went on in {output} in place of {before}, which ended without a word")
        with lock.renewing():
            yield
    except KeyboardInterrupt:
        if lock.lost:
            raise LockedError(
                f"{output} was taken over by another run while this one was suspended or cut off"
                " from it: look there before you start it again"
            ) from None
        raise
    finally:
        lock.release()


def read_owner(output: str) -> Owner | None:
    """The run that writes a folder now, or None."""
    owner = Owner.read(Location.of(output).read(NAME) or b"")
    return None if owner is None or owner.is_gone() else owner


class FolderLock:
    """The lock of one folder, as one process sees it."""

    def __init__(self, output: str) -> None:
        self.lost = False
        self._output = output
        self._place = Location.of(output)
        self._mine = Owner.here()

    def take(self) -> Owner | None:
        """Takes the lock; gives the one who left it behind, if any."""
        before = None
        for _ in range(10):
            content = self._read()
            found = UNKNOWN if content is None else Owner.read(content) or UNKNOWN
            if content is None:
                written = self._create()
            elif found.is_gone():
                before = found
                written = self._replace(content)
            else:
                raise LockedError(self._explain(found))
            if written:
                if before is not None or not self._place.local:
                    time.sleep(PAUSE)
                if self._holds():
                    return before
        raise LockedError(f"the lock {join(self._output, NAME)} changes too fast: try again")

    def release(self) -> None:
        """Removes the lock if it is this one; what cannot be removed expires."""
        with contextlib.suppress(Exception):
            if self._holds():
                self._remove()

    @contextlib.contextmanager
    def renewing(self) -> Iterator[None]:
        """Shows others that this process is alive."""
        ended = threading.Event()

        def renew() -> None:
            while not ended.wait(RENEWAL):
                # A store that cannot be reached now is tried again later.
                with contextlib.suppress(Exception):
                    if not self._holds():
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
            thread.join()

    def _read(self) -> bytes | None:
        """The lock as it is. One that is not whole is given a moment in which to become so."""
        content = self._place.read(NAME)
        for _ in range(5):
            if content is None or Owner.read(content) is not None:
                break
            time.sleep(0.1)
            content = self._place.read(NAME)
        return content

    def _holds(self) -> bool:
        owner = Owner.read(self._place.read(NAME) or b"")
        return owner is not None and owner.token == self._mine.token

    def _create(self) -> bool:
        """Writes the lock unless there is one."""
        content = self._mine.write()
        try:
            if not self._place.local:
                return self._create_object(content)
            Path(self._place.url).mkdir(parents=True, exist_ok=True)
            handle = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            if self._place.local and not Path(self._place.url).is_dir():
                raise InputError(f"output must be a folder, but {self._output} is a file") from None
            return False
        except Exception as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"output must be writable, got {self._output}: {reason}") from error
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        return True

    def _create_object(self, content: bytes) -> bool:
        import fsspec

        backend, path = fsspec.url_to_fs(join(self._place.url, NAME))
        try:
            backend.pipe_file(path, content, mode="create")
        except FileExistsError:
            return False
        except (TypeError, ValueError, NotImplementedError, OSError):
            # This store cannot, or it says in its own way that there is one.
            if self._place.read(NAME) is not None:
                return False
            self._write(self._mine)
        return True

    def _replace(self, found: bytes) -> bool:
        """Puts the lock in the place of the one that was found, unless it has changed."""
        with self._alone():
            if self._place.read(NAME) != found:
                return False
            self._write(self._mine)
        return True

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Keeps other processes of this host from replacing the same lock."""
        if not self._place.local:
            yield
            return
        import fcntl

        handle = os.open(self._place.url, os.O_RDONLY)
        try:
            # Where the file system has no such locks, what was written is read again as elsewhere.
            with contextlib.suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _write(self, owner: Owner) -> None:
        write_file(self._path, owner.write())

    def _remove(self) -> None:
        if self._place.local:
            Path(self._path).unlink()
        else:
            self._place.remove_files([NAME])

    @property
    def _path(self) -> str:
        return join(self._place.url, NAME)

    def _explain(self, owner: Owner) -> str:
        expires = ""
        if (owner.host, owner.realm) != (self._mine.host, self._mine.realm):
            seconds = max(0.0, owner.renewed + EXPIRY - time.time())
            expires = f"; if it is dead, its lock expires in {seconds:.0f} s"
        return (
            f"only one run may write {self._output} at a time, but {owner}, is at it:"
            f" wait for it or stop it, or choose another folder with --output{expires}"
        )
