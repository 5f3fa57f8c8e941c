"""The progress of a run: messages and tasks, whatever displays them."""

from __future__ import annotations

import sys
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Literal, Protocol, TypeAlias

from atd_dask.json_records import Json
from atd_dask.wording import clean

POLL_SECONDS = 1.0
MOST_SILENCE = 60.0  # seconds
COMPILING = "compiling, once"

Level = Literal["info", "warning", "error"]
Facts: TypeAlias = Mapping[str, Json]  # named values of an event


@dataclass
class Origin:
    """What an event belongs to: a run, and one of its stages if one is running."""

    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    stage: str | None = None


class Output(Protocol):
    """A way to display progress."""

    origin: Origin

    def show_message(self, level: Level, message: str, facts: Facts) -> None: ...

    def show_task(self, event: str, task: Task) -> None: ...


class Task:
    """Work in progress: how much is done, and the facts known so far."""

    def __init__(self, output: Output, stage: str, total: float | None, unit: str) -> None:
        self.stage = stage
        self.total = total
        self.unit = unit
        self.done: float = 0
        self.facts: dict[str, Json] = {}
        self.note = ""  # what it is waiting for, if anything
        self._output = output
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._start

    def advance(self, amount: float = 1, /, **facts: Json) -> None:
        """Add to what is done; `facts` replace earlier ones of the same name."""
        self.reach(self.done + amount, **facts)

    def reach(self, done: float, /, **facts: Json) -> None:
        """Set what is done; `facts` replace earlier ones of the same name."""
        self.done = done
        self.note = ""
        self.facts.update(facts)
        self._output.show_task("progress", self)


class _Listened:
    """An output that knows when it last had something to show."""

    def __init__(self, output: Output) -> None:
        self.origin = output.origin
        self.since = time.monotonic()
        self._output = output

    def show_message(self, level: Level, message: str, facts: Facts) -> None:
        self.since = time.monotonic()
        self._output.show_message(level, message, facts)

    def show_task(self, event: str, task: Task) -> None:
        self.since = time.monotonic()
        self._output.show_task(event, task)


class Progress:
    """Reports the progress of a run. If quiet, it reports only warnings and errors; if verbose,
    whoever reports an error adds where it came from."""

    def __init__(self, output: Output, quiet: bool = False, verbose: bool = False) -> None:
        self.verbose = verbose
        self._output = _Listened(output)
        self._quiet = quiet

    @contextmanager
    def never_silent(self, seconds: float = MOST_SILENCE) -> Iterator[None]:
        """Say that the run is still working whenever there is no news for this many seconds."""

        def watch(ended: threading.Event) -> None:
            while not ended.wait(min(POLL_SECONDS, seconds)):
                if time.monotonic() - self._output.since >= seconds:
                    self.say(
                        f"no news for {seconds:.0f} s: the job is computing, or waiting for a disk"
                        " or an object store"
                    )

        with _running(watch):
            yield

    @property
    def run(self) -> str:
        """The unique id of this run."""
        return self._output.origin.run

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Attribute everything reported in the block, from any thread, to the stage `name`.

        If the block raises, the stage stays set, so that the error is attributed to it too.
        """
        self._output.origin.stage = name
        yield
        self._output.origin.stage = None

    @contextmanager
    def task(
        self,
        stage: str,
        total: float | None = None,
        unit: str = "",
        is_compiling: Callable[[], bool] | None = None,
    ) -> Iterator[Task]:
        """Display a task until it ends or fails.

        Until it first advances, `is_compiling` is polled to tell whether it waits for kernels.
        """
        output = _Silence() if self._quiet else self._output
        task = Task(output, stage, total, unit)
        output.show_task("start", task)
        try:
            with _noting_compilation(task, output, is_compiling):
                yield task
        except BaseException:
            output.show_task("stopped", task)
            raise
        output.show_task("end", task)

    def say(self, message: str, **facts: Json) -> None:
        if not self._quiet:
            self._output.show_message("info", message, facts)

    def warn(self, message: str, **facts: Json) -> None:
        self._output.show_message("warning", message, facts)

    def error(self, message: str, **facts: Json) -> None:
        self._output.show_message("error", message, facts)


@contextmanager
def _noting_compilation(
    task: Task, output: Output, is_compiling: Callable[[], bool] | None
) -> Iterator[None]:
    """Note on a task that has not advanced yet that its kernels are being compiled."""
    if is_compiling is None or isinstance(output, _Silence):
        yield
        return

    def watch(ended: threading.Event) -> None:
        while not ended.wait(POLL_SECONDS) and not task.done and not task.facts:
            if not task.note and is_compiling():
                task.note = COMPILING
                output.show_task("waiting", task)

    with _running(watch):
        yield


@contextmanager
def _running(watch: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run a function in a thread during the block; its event is set at the end."""
    ended = threading.Event()
    thread = threading.Thread(target=watch, args=(ended,), name="atd-dask-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class _Silence:
    origin = Origin()

    def show_message(self, level: Level, message: str, facts: Facts) -> None:
        """Say nothing."""

    def show_task(self, event: str, task: Task) -> None:
        """Say nothing."""


class PythonWarnings(_Silence):
    """Issues Python warnings, and displays nothing else."""

    def __init__(self) -> None:
        self.origin = Origin()

    def show_message(self, level: Level, message: str, facts: Facts) -> None:
        if level != "info":
            warnings.warn(clean(message), UserWarning, stacklevel=_count_own_frames() + 1)


def _count_own_frames() -> int:
    """Count the frames of this package on the stack, starting with the caller.

    A warning then names the line that called the package.
    """
    number, frame = 0, sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame):
        number, frame = number + 1, frame.f_back
    return number


def _is_ours(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__", ""))
    return module.split(".")[0] in ("atd_dask", "contextlib")
