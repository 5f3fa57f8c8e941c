"""What a run says while it works, whatever shows it."""

from __future__ import annotations

import sys
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Literal, Protocol

from atd_dask.wording import clean

SECONDS_BETWEEN_LOOKS = 1.0
COMPILING = "compiling, once"

Level = Literal["info", "warning", "error"]


@dataclass
class Origin:
    """What an event belongs to: the run, and its stage, if one is under way."""

    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    stage: str | None = None


class Output(Protocol):
    """One way of showing what happens."""

    origin: Origin

    def show_message(self, level: Level, message: str, facts: dict[str, Any]) -> None: ...

    def show_task(self, event: str, task: Task) -> None: ...


class Task:
    """A piece of work that is under way: how far it is, and what is known of it so far."""

    def __init__(self, output: Output, stage: str, total: float | None, unit: str) -> None:
        self.stage = stage
        self.total = total
        self.unit = unit
        self.done: float = 0
        self.facts: dict[str, Any] = {}
        self.note = ""  # what it waits for before it gets on
        self._output = output
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._start

    def advance(self, amount: float = 1, /, **facts: Any) -> None:
        """Adds to what is done; `facts` replace those of the same name."""
        self.reach(self.done + amount, **facts)

    def reach(self, done: float, /, **facts: Any) -> None:
        """Sets what is done; `facts` replace those of the same name."""
        self.done = done
        self.note = ""
        self.facts.update(facts)
        self._output.show_task("progress", self)


class Progress:
    """The one voice of a run; a quiet one gives warnings and errors alone.

    Facts are named values that go with an event: text, numbers, lists and mappings of them.
    """

    def __init__(self, output: Output, quiet: bool = False) -> None:
        self._output = output
        self._quiet = quiet

    @property
    def run(self) -> str:
        """The id of this run, which no other has."""
        return self._output.origin.run

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """What is said in the block, by whatever thread, belongs to the stage of this name; and
        what is said of an error in it."""
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
        """Shows a piece of work from its start to its end, or to where it broke off. As long as
        nothing is done, `is_compiling` is asked now and then whether kernels are the reason."""
        output = _Silence() if self._quiet else self._output
        task = Task(output, stage, total, unit)
        output.show_task("start", task)
        try:
            with _excuse(task, output, is_compiling):
                yield task
        except BaseException:
            output.show_task("stopped", task)
            raise
        output.show_task("end", task)

    def say(self, message: str, **facts: Any) -> None:
        if not self._quiet:
            self._output.show_message("info", message, facts)

    def warn(self, message: str, **facts: Any) -> None:
        self._output.show_message("warning", message, facts)

    def error(self, message: str, **facts: Any) -> None:
        self._output.show_message("error", message, facts)


@contextmanager
def _excuse(task: Task, output: Output, is_compiling: Callable[[], bool] | None) -> Iterator[None]:
    """Notes on a task that has not begun to get on that its kernels are being compiled."""
    if is_compiling is None or isinstance(output, _Silence):
        yield
        return
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(SECONDS_BETWEEN_LOOKS) and not task.done and not task.facts:
            if not task.note and is_compiling():
                task.note = COMPILING
                output.show_task("waiting", task)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


class _Silence:
    origin = Origin()

    def show_message(self, level: Level, message: str, facts: dict[str, Any]) -> None:
        """Says nothing."""

    def show_task(self, event: str, task: Task) -> None:
        """Says nothing."""


class PythonWarnings(_Silence):
    """Warnings as a library gives them, and nothing else."""

    def __init__(self) -> None:
        self.origin = Origin()

    def show_message(self, level: Level, message: str, facts: dict[str, Any]) -> None:
        if level != "info":
            warnings.warn(clean(message), UserWarning, stacklevel=_count_own_frames() + 1)


def _count_own_frames() -> int:
    """How many of the calls that lead here are ours, so that a warning names the line of those who
    called us. Its caller counts as the first."""
    number, frame = 0, sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame):
        number, frame = number + 1, frame.f_back
    return number


def _is_ours(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__", ""))
    return module.split(".")[0] in ("atd_dask", "contextlib")
