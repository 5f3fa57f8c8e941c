"""Locks between real processes, on a local disk and on object stores."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest

from atd_dask.errors import InputError
from atd_dask.storage import locks
from atd_dask.storage.locks import NAME, LockedError, Owner, lock_folder, read_owner
from tests.clusters import wait_for

HOLD = """
import sys
from atd_dask.storage.locks import lock_folder
with lock_folder(sys.argv[1], print):
    print("held", flush=True)
    sys.stdin.read()
"""
RACE = """
import sys
from atd_dask.storage.locks import LockedError, lock_folder
print("ready", flush=True)
sys.stdin.readline()
try:
    with lock_folder(sys.argv[1], lambda line: None):
        print("held", flush=True)
        sys.stdin.readline()
except LockedError:
    print("refused", flush=True)
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(locks, "PAUSE", 0.05)
    monkeypatch.setattr(locks, "OBSERVATION", 0.5)


def start(program: str, output: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, output],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def say_nothing(line: str) -> None:
    raise AssertionError(f"there was nothing to say, but: {line}")


@contextmanager
def holder(output: str) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock."""
    with start(HOLD, output) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_lock_is_there_and_goes_again(tmp_path):
    output = tmp_path / "new" / "out"
    with lock_folder(str(output), say_nothing):
        told = json.loads((output / NAME).read_text())
        assert told["pid"] == os.getpid()
        assert list(output.iterdir()) == [output / NAME]
        owner = read_owner(str(output))
        assert owner is not None
        assert owner.pid == os.getpid()
    assert list(output.iterdir()) == []
    assert read_owner(str(output)) is None


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_a_lock_goes_after_errors(tmp_path, error):
    def fail() -> None:
        with lock_folder(str(tmp_path), say_nothing):
            raise error("now")

    with pytest.raises(error, match="now"):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_a_living_owner_is_named(tmp_path):
    with holder(str(tmp_path)) as process:
        before = (tmp_path / NAME).read_bytes()
        with (
            pytest.raises(
                LockedError,
                match=rf"only one run may write to {tmp_path} at a time, but process {process.pid}"
                r" on .*, since 20.* UTC, is using it: wait for it or stop it, or choose another"
                r" folder with --output$",
            ),
            lock_folder(str(tmp_path), say_nothing),
        ):
            pass
        assert (tmp_path / NAME).read_bytes() == before
        assert process.stdin is not None
        process.stdin.close()
        process.wait(timeout=120)
    assert list(tmp_path.iterdir()) == []


def test_a_suspended_owner_is_alive(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "EXPIRY", 0.0)
    with holder(str(tmp_path)) as process:
        process.send_signal(signal.SIGSTOP)
        with (
            pytest.raises(LockedError, match=f"but process {process.pid} on"),
            lock_folder(str(tmp_path), say_nothing),
        ):
            pass


@pytest.mark.parametrize("reaped", [True, False])
def test_the_lock_of_a_dead_process_is_taken_over(tmp_path, reaped):
    lines: list[str] = []
    with holder(str(tmp_path)) as process:
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | (0 if reaped else os.WNOWAIT))
        with lock_folder(str(tmp_path), lines.append):
            assert read_owner(str(tmp_path)).pid == os.getpid()
    (line,) = lines
    assert line.startswith(f"resuming in {tmp_path} after process {process.pid} on ")
    assert line.endswith(", which ended without removing its lock")
    assert list(tmp_path.iterdir()) == []


def test_a_number_that_another_process_has_now_is_no_owner(tmp_path):
    mine = Owner.here()
    stale = replace(mine, born=mine.born - 3600, token="other")
    (tmp_path / NAME).write_bytes(stale.write())
    lines: list[str] = []
    with lock_folder(str(tmp_path), lines.append):
        pass
    assert len(lines) == 1


def test_a_process_that_may_not_be_looked_at_is_alive(tmp_path, monkeypatch):
    import psutil

    def deny(self):
        raise psutil.AccessDenied

    other = replace(Owner.here(), token="other")
    (tmp_path / NAME).write_bytes(other.write())
    monkeypatch.setattr(psutil.Process, "status", deny)
    with pytest.raises(LockedError, match="only one run"), lock_folder(str(tmp_path), say_nothing):
        pass


@pytest.mark.parametrize("where", ["host", "realm"])
def test_elsewhere_a_lock_expires(tmp_path, where):
    away = replace(Owner.here(), token="other", **{where: "elsewhere"})
    (tmp_path / NAME).write_bytes(away.write())
    with (
        pytest.raises(LockedError, match=r"if it is dead, its lock expires in 1\d\d s$"),
        lock_folder(str(tmp_path), say_nothing),
    ):
        pass
    expired = replace(away, renewed=away.renewed - locks.EXPIRY - 1)
    (tmp_path / NAME).write_bytes(expired.write())
    lines: list[str] = []
    with lock_folder(str(tmp_path), lines.append):
        pass
    assert [line.partition(" ")[0] for line in lines] == [str(tmp_path), "resuming"]
    assert "waiting 0 s to see whether that process is still alive" in lines[0]


@pytest.mark.parametrize("step", [-7200.0, 7200.0])
def test_a_step_of_the_clock_does_not_free_the_lock_of_a_living_run(tmp_path, monkeypatch, step):
    import psutil

    with holder(str(tmp_path)) as process:
        told = psutil.Process.create_time
        monkeypatch.setattr(psutil.Process, "create_time", lambda self: told(self) + step)
        now = time.time
        monkeypatch.setattr(locks.time, "time", lambda: now() + step)
        with (
            pytest.raises(LockedError, match=f"but process {process.pid} on"),
            lock_folder(str(tmp_path), say_nothing),
        ):
            pass


def test_a_lock_of_an_earlier_version_is_understood(tmp_path):
    import psutil

    mine = Owner.here()
    told = json.loads(replace(mine, token="other", born=psutil.Process().create_time()).write())
    del told["boot"]
    (tmp_path / NAME).write_text(json.dumps(told))
    with pytest.raises(LockedError, match="only one run"), lock_folder(str(tmp_path), say_nothing):
        pass
    (tmp_path / NAME).write_text(json.dumps(told | {"born": 1.0}))
    lines: list[str] = []
    with lock_folder(str(tmp_path), lines.append):
        pass
    assert len(lines) == 1


def test_a_lock_of_an_earlier_boot_is_taken_over(tmp_path):
    (tmp_path / NAME).write_bytes(replace(Owner.here(), token="other", boot="before").write())
    lines: list[str] = []
    with lock_folder(str(tmp_path), lines.append):
        pass
    assert len(lines) == 1


def test_a_lock_that_is_renewed_elsewhere_stays_whatever_the_clocks_say(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "OBSERVATION", 60.0)
    away = replace(Owner.here(), token="other", host="elsewhere", renewed=0.0)
    (tmp_path / NAME).write_bytes(away.write())
    lines: list[str] = []

    def renew(line: str) -> None:
        lines.append(line)
        (tmp_path / "renewed").write_bytes(replace(away, renewed=1.0).write())
        (tmp_path / "renewed").replace(tmp_path / NAME)

    with pytest.raises(LockedError, match="on elsewhere"), lock_folder(str(tmp_path), renew):
        pass
    assert len(lines) == 1


@pytest.mark.parametrize("content", [b"", b'{"host": 1}'])
def test_a_lock_that_is_not_whole_is_taken_over(tmp_path, content):
    (tmp_path / NAME).write_bytes(content)
    lines: list[str] = []
    with lock_folder(str(tmp_path), lines.append):
        pass
    assert "an unknown host" in lines[0]


@pytest.mark.parametrize("stale", [False, True])
def test_of_many_processes_one_gets_the_lock(tmp_path, stale):
    if stale:
        gone = replace(Owner.here(), born=0.0, token="gone")
        (tmp_path / NAME).write_bytes(gone.write())
    processes = [start(RACE, str(tmp_path)) for _ in range(4)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    answers = [process.stdout.readline() for process in processes]
    assert sorted(answers) == ["held\n", "refused\n", "refused\n", "refused\n"]
    for process in processes:
        assert process.communicate(timeout=120) == ("", None)
    assert list(tmp_path.iterdir()) == []


def test_a_lock_is_renewed(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "RENEWAL", 0.05)
    with lock_folder(str(tmp_path), say_nothing):
        first = read_owner(str(tmp_path))
        wait_for(lambda: read_owner(str(tmp_path)).renewed > first.renewed)
        assert read_owner(str(tmp_path)).token == first.token
    assert list(tmp_path.iterdir()) == []


def test_a_run_whose_lock_was_taken_over_stops(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "RENEWAL", 0.05)
    other = replace(Owner.here(), token="other").write()

    def work() -> None:
        with lock_folder(str(tmp_path), say_nothing):
            # Again and again, as the other run renews its lock.
            for _ in range(600):
                (tmp_path / "other").write_bytes(other)
                (tmp_path / "other").replace(tmp_path / NAME)
                threading.Event().wait(0.2)

    with pytest.raises(LockedError, match="was taken over by another run while this one"):
        work()
    assert (tmp_path / NAME).read_bytes() == other


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(InputError, match=r"output must be a folder, but .*file is a file"):
        locks.FolderLock(str(file)).take()
    with pytest.raises(InputError, match=r"output must be writable, got /proc/nothing: "):
        locks.FolderLock("/proc/nothing").take()


@pytest.fixture
def memory() -> Iterator[str]:
    import fsspec

    yield "memory://locks/out"
    with suppress(FileNotFoundError):
        fsspec.filesystem("memory").rm("/locks", recursive=True)


def hold_and_meet(url: str) -> None:
    with lock_folder(url, say_nothing):
        assert read_owner(url).pid == os.getpid()
        with (
            pytest.raises(LockedError, match=f"only one run may write to {url} at a time"),
            lock_folder(url, say_nothing),
        ):
            pass
        assert read_owner(url) is not None
    assert read_owner(url) is None
    with lock_folder(url, say_nothing):
        pass


def test_a_lock_behind_a_url(memory):
    hold_and_meet(memory)


@pytest.mark.parametrize("error", [TypeError, NotImplementedError, OSError])
def test_a_store_that_cannot_create_on_condition(memory, monkeypatch, error):
    from fsspec.implementations.memory import MemoryFileSystem

    plain = MemoryFileSystem.pipe_file

    def pipe_file(self, path, value, mode="overwrite"):
        if mode == "create":
            raise error
        plain(self, path, value)

    monkeypatch.setattr(MemoryFileSystem, "pipe_file", pipe_file)
    hold_and_meet(memory)


def test_the_last_writer_of_a_store_without_conditions_has_the_lock(memory, monkeypatch):
    from fsspec.implementations.memory import MemoryFileSystem

    plain = MemoryFileSystem.pipe_file
    monkeypatch.setattr(
        MemoryFileSystem, "pipe_file", lambda self, path, value, mode="": plain(self, path, value)
    )
    other = replace(Owner.here(), token="other")
    pause = time.sleep

    def sleep(seconds: float) -> None:
        """While this process waits, another one writes its lock."""
        plain(MemoryFileSystem(), f"/locks/out/{NAME}", other.write())
        pause(seconds)

    monkeypatch.setattr(locks.time, "sleep", sleep)
    with (
        pytest.raises(LockedError, match="only one run may write"),
        lock_folder(memory, say_nothing),
    ):
        pass
