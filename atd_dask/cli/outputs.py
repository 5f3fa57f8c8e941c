"""Displays progress: bars in a terminal, lines in a log, JSON, or a line in a notebook.

Progress goes to standard error; results go to standard output. Text is sanitised, so that it cannot
move the cursor, colour the screen or start a new line.
"""

from __future__ import annotations

import json
import logging
import math
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

from atd_dask.progress import Facts, Level, Origin, Progress, PythonWarnings, Task
from atd_dask.wording import clean, hide_credentials

if TYPE_CHECKING:
    from rich.progress import Progress as Bars


SECONDS_BETWEEN_LINES = 5.0
SECONDS_BETWEEN_UPDATES = 0.2
# The loggers for which Dask installs handlers, parents first.
DASK_LOGGERS = (
    *("distributed", "distributed.client", "distributed.gc"),
    *("bokeh", "tornado", "tornado.application"),
)


def make_progress(log_format: str = "text", quiet: bool = False, verbose: bool = False) -> Progress:
    """Return a `Progress` that suits standard error: a terminal, or a file or pipe."""
    stream = sys.stderr
    if log_format == "json":
        return Progress(JsonLines(stream), quiet, verbose)
    if stream.isatty() and os.environ.get("TERM") != "dumb":
        return Progress(TerminalBars(stream), quiet, verbose)
    return Progress(PlainLines(stream), quiet, verbose)


class _Redirection(logging.Handler):
    def __init__(self, progress: Progress) -> None:
        super().__init__(logging.WARNING)
        self._progress = progress

    def filter(self, record: logging.LogRecord) -> bool:
        """Leave out errors and tracebacks unless they are wanted: what matters of them is raised
        in the job too, which then ends with one sentence."""
        is_sentence = record.exc_info is None and "\n" not in record.getMessage()
        return self._progress.verbose or (record.levelno < logging.ERROR and is_sentence)

    def emit(self, record: logging.LogRecord) -> None:
        say = self._progress.error if record.levelno >= logging.ERROR else self._progress.warn
        say(self.format(record), logger=record.name)


@contextmanager
def redirect_logs(progress: Progress) -> Iterator[None]:
    """Route the warnings of Dask in this process through `progress`, and if that is verbose, its
    errors and tracebacks.

    Dask must be imported first, because that installs its own handlers.
    """
    loggers = [logging.getLogger(name) for name in DASK_LOGGERS]
    before = [(logger, logger.handlers, logger.propagate) for logger in loggers]
    redirection = _Redirection(progress)
    for logger in loggers:
        below = "." in logger.name
        logger.handlers = [] if below else [redirection]
        logger.propagate = below
    try:
        yield
    finally:
        for logger, handlers, propagate in before:
            logger.handlers, logger.propagate = handlers, propagate


class _Pace:
    """Limits the rate of updates; the start and the end of a task always pass."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._last = -math.inf

    def allows(self, event: str) -> bool:
        now = time.monotonic()
        if event == "progress" and now - self._last < self._seconds:
            return False
        self._last = now
        return True


class NotebookLine(PythonWarnings):
    """Shows the latest event in a line of a notebook, and issues Python warnings."""

    def __init__(self, seconds: float = SECONDS_BETWEEN_UPDATES) -> None:
        super().__init__()
        self._pace = _Pace(seconds)
        from IPython.display import display

        show: Any = display  # untyped
        self._line = show({"text/plain": ""}, raw=True, display_id=True)

    def show_message(self, level: Level, message: str, facts: Facts) -> None:
        super().show_message(level, message, facts)
        if level == "info":
            self._write(_phrase(level, message, facts))

    def show_task(self, event: str, task: Task) -> None:
        if self._pace.allows(event):
            self._write(f"{task.stage}: {_describe(event, task)}{_in_brackets(task.facts)}")

    def clear(self) -> None:
        self._write("")

    def _write(self, line: str) -> None:
        self._line.update({"text/plain": clean(line)}, raw=True)


class PlainLines:
    """Writes a line per event, for people who read a log."""

    def __init__(self, stream: TextIO, seconds: float = SECONDS_BETWEEN_LINES) -> None:
        self.origin = Origin()
        self._stream = stream
        self._pace = _Pace(seconds)

    def show_message(self, level: Level, message: str, facts: Facts) -> None:
        for line in message.splitlines():
            self._write(_phrase(level, line, facts))

    def show_task(self, event: str, task: Task) -> None:
        if self._pace.allows(event):
            self._write(f"{task.stage}: {_describe(event, task)}{_in_brackets(task.facts)}")

    def _write(self, line: str) -> None:
        print(clean(line), file=self._stream, flush=True)


class JsonLines:
    """Writes a JSON object per event, for programs."""

    def __init__(self, stream: TextIO, seconds: float = SECONDS_BETWEEN_LINES) -> None:
        self.origin = Origin()
        self._stream = stream
        self._pace = _Pace(seconds)

    def show_message(self, level: Level, message: str, facts: Facts) -> None:
        self._write(level, None, "message", {"message": message, **facts})

    def show_task(self, event: str, task: Task) -> None:
        if self._pace.allows(event):
            progress = {"done": task.done, "total": task.total, "unit": task.unit}
            seconds = round(task.seconds, 3)
            note = {"note": task.note} if task.note else {}
            facts = {**progress, "seconds": seconds, **note, **task.facts}
            self._write("info", task.stage, event, facts)

    def _write(self, level: Level, task: str | None, event: str, facts: Facts) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"time": now, "level": level, **asdict(self.origin), "task": task, "event": event}
        line["facts"] = _fit_for_json(facts)
        # The one control character that JSON does not escape.
        text = json.dumps(line, default=str).replace("\x7f", "\\u007f")
        print(text, file=self._stream, flush=True)


def _fit_for_json(value: Any) -> Any:
    """Return the value without secrets, and with null for NaN and infinity."""
    if isinstance(value, str):
        return hide_credentials(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(name): _fit_for_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_fit_for_json(part) for part in value]
    return value


class TerminalBars:
    """Shows bars with the rate and the time left, and messages above them."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console

        self.origin = Origin()
        self._console = Console(file=stream, highlight=False)
        self._bars: Bars | None = None
        self._numbers: dict[Task, Any] = {}

    def show_message(self, level: Level, message: str, facts: Facts) -> None:
        from rich.text import Text

        style = {"info": "", "warning": "yellow", "error": "red"}[level]
        for line in message.splitlines():
            text = Text(clean(_phrase(level, line, facts)), style)
            self._console.print(text, soft_wrap=True)

    def show_task(self, event: str, task: Task) -> None:
        if self._bars is None:
            self._bars = _make_bars(self._console)
            self._bars.start()
        if event == "start":
            self._numbers[task] = self._bars.add_task(
                clean(task.stage), total=task.total, unit=clean(task.unit), facts=""
            )
        number = self._numbers[task]
        facts = clean(task.note or _join(task.facts))
        self._bars.update(number, total=task.total, completed=task.done, facts=facts)
        if event == "end":
            self._bars.update(number, total=task.done)
        if event in ("end", "stopped"):
            del self._numbers[task]
            if self._numbers:
                self._bars.remove_task(number)  # part of a task that is still running
            else:
                self._bars.stop()
                self._bars = None


def _make_bars(console: Any) -> Bars:
    from rich.progress import BarColumn, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars
    from rich.text import Text

    class Amount(ProgressColumn):
        def render(self, task: Any) -> Text:
            total = f" of {task.total:,.0f}" if task.total is not None else ""
            rate = f", {_show_rate(task.speed)}" if task.speed else ""
            return Text(f"{task.completed:,.0f}{total} {task.fields['unit']}{rate}")

    return Bars(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        Amount(),
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("{task.fields[facts]}", markup=False),
        console=console,
    )


def _describe(event: str, task: Task) -> str:
    if event == "start":
        total = f", {task.total:,.0f} {task.unit}" if task.total is not None else ""
        return f"started{total}".rstrip()
    if event == "waiting":
        return task.note
    seconds = task.seconds
    amount = f"{task.done:,.0f} {task.unit}".rstrip()
    if event != "progress":
        word = "done" if event == "end" else "stopped"
        return f"{word}, {amount} in {seconds:.1f} s"
    rate = task.done / seconds if seconds > 0 else 0
    parts = [amount, _show_rate(rate)]
    if task.total:
        parts[0] = f"{amount} of {task.total:,.0f}, {task.done / task.total:.0%}"
        if rate:
            parts.append(f"{_show_seconds(max(0, task.total - task.done) / rate)} left")
    return ", ".join(parts)


def _show_rate(rate: float) -> str:
    """Format a rate as a number per second, or as seconds per item."""
    return f"{rate:,.0f}/s" if rate >= 1 or rate == 0 else f"{_show_seconds(1 / rate)} each"


def _show_seconds(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours:,} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _join(facts: Facts) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items())


def _phrase(level: Level, line: str, facts: Facts) -> str:
    prefix = "" if level == "info" else f"{level}: "
    return f"{prefix}{line}{_in_brackets(facts)}"


def _in_brackets(facts: Facts) -> str:
    return f" ({_join(facts)})" if facts else ""
