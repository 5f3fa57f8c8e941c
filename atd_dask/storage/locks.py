"""One run at a time in an output folder: a file there names the run that writes it.

A lock names a process: its host, its number and when it started, counted from when the host was
booted, so that setting a clock changes nothing. On the same host it is known whether that process
is alive. On another host a lock counts as left behind if it looks old by the clocks and is then not
renewed while we watch it.

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

from atd_dask.errors import AtdError, InputError, OutageError
from atd_dask.outages import explain_outage
from atd_dask.storage.atomic_files import join, write_file
from atd_dask.storage.locations import Location

NAME = "run.lock"
EXPIRY = 120.0  # seconds after which a lock that was not renewed is left behind
RENEWAL = 20.0  # seconds between renewals
OBSERVATION = 30.0  # seconds for which the lock of another host is watched before it is taken over
LAST_RENEWAL = 10.0  # seconds for which the end of a run waits for a renewal that is under way
PAUSE = 0.5  # seconds in which another one who writes the same lock would show himself
# Seconds by which the start of one and the same process may seem to differ: by the clock, where an
# earlier version or another system than Linux wrote the lock, and since the host was booted.
CLOCK_TOLERANCE = 10.0
BOOT_TOLERANCE = 0.05


class LockedError(AtdError):
    """Another run writes the folder."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that writes a folder, and since when."""

    host: str
    realm: str  # tells containers with the same host name apart: each counts its own processes
    pid: int
    # When the process started, as its number is given again after its end: in seconds since the
    # host was booted, or by the clock where that is not known.
    born: float
    since: float
    renewed: float
    token: str
    boot: str = ""  # which boot of the host `born` is counted from; empty if it is a time

    @classmethod
    def here(cls) -> Owner:
        now = time.time()
        boot = _find_boot()
        born = _find_birth(os.getpid(), boot) or now
        token = secrets.token_hex(8)
        return cls(socket.gethostname(), _find_realm(), os.getpid(), born, now, now, token, boot)

    @classmethod
    def read(cls, content: bytes) -> Owner | None:
        """The owner in a lock file, or None where the file is not whole."""
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
        """Whether the lock was left behind."""
        if not self.is_here():
            return time.time() > self.renewed + EXPIRY
        if self.boot and self.boot != _find_boot():
            return True
        born = _find_birth(self.pid, self.boot)
        tolerance = BOOT_TOLERANCE if self.boot else CLOCK_TOLERANCE
        return born is None or abs(born - self.born) > tolerance

    def is_here(self) -> bool:
        """Whether the process belongs to this host, where it can be looked at."""
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


# Who left behind a lock that is not whole.
UNKNOWN = Owner("an unknown host", "", 0, 0.0, 0.0, 0.0, "")


def _find_birth(pid: int, boot: str) -> float | None:
    """When a process started, since `boot` if one is named: None if there is no process of this
    number, NaN if that is kept secret."""
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
    """When a process started, in seconds since the host was booted. psutil adds to it when that
    was by the clock of now, which changes when the clock is set."""
    # The name of the program, in brackets, may hold anything; the start is the 20th field after it.
    fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _find_boot() -> str:
    """Which boot of this host this is; empty where the system does not say."""
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
        before = lock.take(say)
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
    except OutageError:
        lock.abandon()
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
        self._abandoned = False

    def take(self, say: Callable[[str], None] = lambda line: None) -> Owner | None:
        """Takes the lock; gives the one who left it behind, if any. `say` hears of waiting."""
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
                if before is not None or not self._place.local:
                    time.sleep(PAUSE)
                if self._holds():
                    return before
        raise LockedError(f"the lock {join(self._output, NAME)} changes too fast: try again")

    def _is_renewed(self, found: Owner, content: bytes, say: Callable[[str], None]) -> bool:
        """Whether a lock that looks old by the clocks, which may be wrong, is renewed while we
        watch."""
        if found.is_here() or found == UNKNOWN:
            return False
        say(
            f"{self._output} looks as if {found}, had left it: waiting {OBSERVATION:.0f} s to see"
            " whether it is alive"
        )
        end = time.monotonic() + OBSERVATION
        while time.monotonic() < end:
            time.sleep(PAUSE)
            now = self._place.read(NAME) or b""
            if now != content:
                owner = Owner.read(now)
                return owner is not None and owner.token == found.token
        return False

    def abandon(self) -> None:
        """Leaves the lock to expire, or to be taken over, where it cannot be reached."""
        self._abandoned = True

    def release(self) -> None:
        """Removes the lock if it is this one; what cannot be removed expires."""
        with contextlib.suppress(Exception):
            if not self._abandoned and self._holds():
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
            raise explain_outage(error, self._output) or InputError(
                f"output must be writable, got {self._output}: {reason}"
            ) from error
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
        if not owner.is_here():
            seconds = max(0.0, owner.renewed + EXPIRY - time.time())
            expires = f"; if it is dead, its lock expires in {seconds:.0f} s"
        return (
            f"only one run may write {self._output} at a time, but {owner}, is at it:"
            f" wait for it or stop it, or choose another folder with --output{expires}"
        )
