from __future__ import annotations

import io
import json
import logging
import sys
import threading
from typing import Any

import pytest

from atd_dask.cli.outputs import JsonLines, PlainLines, TerminalBars, make_progress, redirect_logs
from atd_dask.progress import Progress, Task
from tests.clusters import wait_for

EVIL = "\x1b[31mred[/] [bold]x\r\n\x07"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def tell(progress: Progress) -> None:
    """A short run with everything in it."""
    progress.say("begins", workers=2)
    with progress.task("read", total=4, unit="documents") as task:
        for number in range(4):
            task.advance(1, score=number)
    progress.warn("thin")
    progress.error("one\ntwo")


def test_plain_lines() -> None:
    stream = io.StringIO()
    tell(Progress(PlainLines(stream, seconds=3600)))
    lines = stream.getvalue().splitlines()
    assert lines[:2] == ["begins (workers 2)", "read: started, 4 documents"]
    assert lines[2].startswith("read: done, 4 documents in ")
    assert lines[2].endswith(" s (score 3)")
    assert lines[3:] == ["warning: thin", "error: one", "error: two"]


def test_lines_between_start_and_end() -> None:
    stream = io.StringIO()
    tell(Progress(PlainLines(stream, seconds=0)))
    between = [line for line in stream.getvalue().splitlines() if "/s" in line]
    assert len(between) == 4
    assert between[1].startswith("read: 2 documents of 4, 50%, ")
    assert "s left (score 1)" in between[1]


def test_a_task_without_a_known_end() -> None:
    stream = io.StringIO()
    with Progress(PlainLines(stream, seconds=0)).task("count") as task:
        task.advance(2500)
    start, between, end = stream.getvalue().splitlines()
    assert start == "count: started"
    assert between.startswith("count: 2,500, ")
    assert end.startswith("count: done, 2,500 in ")


def test_a_task_that_breaks_off() -> None:
    stream = io.StringIO()
    progress = Progress(PlainLines(stream))

    def break_off() -> None:
        with progress.task("read") as task:
            task.advance(3)
            raise KeyboardInterrupt("now")

    with pytest.raises(KeyboardInterrupt, match="now"):
        break_off()
    assert stream.getvalue().splitlines()[-1].startswith("read: stopped, 3 in ")


def test_json_lines() -> None:
    stream = io.StringIO()
    progress = Progress(JsonLines(stream, seconds=3600))
    tell(progress)
    progress.say(EVIL, value=float("nan"), place=object)
    events: list[dict[str, Any]] = [json.loads(line) for line in stream.getvalue().splitlines()]
    keys = ["time", "level", "run", "stage", "task", "event", "facts"]
    assert all(list(event) == keys for event in events)
    assert [(event["level"], event["task"], event["event"]) for event in events] == [
        ("info", None, "message"),
        ("info", "read", "start"),
        ("info", "read", "end"),
        ("warning", None, "message"),
        ("error", None, "message"),
        ("info", None, "message"),
    ]
    assert events[0]["facts"] == {"message": "begins", "workers": 2}
    end = events[2]["facts"]
    assert {key: end[key] for key in ("done", "total", "unit", "score")} == {
        "done": 4,
        "total": 4,
        "unit": "documents",
        "score": 3,
    }
    assert events[-1]["facts"]["message"] == EVIL
    assert events[-1]["facts"]["value"] is None


def test_json_lines_say_what_they_belong_to() -> None:
    stream = io.StringIO()
    progress = Progress(JsonLines(stream))
    other = Progress(JsonLines(io.StringIO()))

    def fail() -> None:
        with progress.stage("train"):
            thread = threading.Thread(target=progress.say, args=("from elsewhere",))
            thread.start()
            thread.join()
            raise OSError("full")

    progress.say("before")
    with progress.stage("ingest"), progress.task("read"):
        progress.say("within")
    progress.say("between")
    with pytest.raises(OSError, match="full"):
        fail()
    progress.error("full")
    events = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [event["stage"] for event in events] == [
        *(None, "ingest", "ingest", "ingest", None, "train", "train")
    ]
    assert {event["run"] for event in events} == {progress.run}
    assert progress.run != other.run


def test_json_lines_have_no_control_characters_and_no_numbers_that_json_lacks() -> None:
    stream = io.StringIO()
    every = "".join(map(chr, range(0xA0)))
    facts = {"word": every, "scores": [1.0, float("inf")], "by": {every: float("nan")}}
    Progress(JsonLines(stream)).say(every, **facts)
    line = stream.getvalue()
    assert line.endswith("\n")
    assert line[:-1].isprintable()
    assert line.isascii()
    told = json.loads(line)["facts"]
    assert told == {"message": every, "word": every, "scores": [1.0, None], "by": {every: None}}


@pytest.mark.parametrize(
    ("seconds", "done", "words"),
    [
        (2.0, 40, "40 of 100, 40%, 20/s, 3.0 s left"),
        (10.0, 4, "4 of 100, 4%, 2.5 s each, 4 min 0 s left"),
        (100.0, 50, "50 of 100, 50%, 2.0 s each, 1 min 40 s left"),
        (3600.0, 25, "25 of 100, 25%, 2 min 24 s each, 3 h 0 min left"),
        (20.0, 99, "99 of 100, 99%, 5/s, 0.2 s left"),
        (0.0, 0, "0 of 100, 0%, 0/s"),
    ],
)
def test_rate_and_time_left(
    monkeypatch: pytest.MonkeyPatch, seconds: float, done: int, words: str
) -> None:
    stream = io.StringIO()
    with Progress(PlainLines(stream, seconds=0)).task("x", 100) as task:
        monkeypatch.setattr(Task, "seconds", seconds)
        task.reach(done)
    assert stream.getvalue().splitlines()[1] == f"x: {words}"


def test_facts_may_have_any_name() -> None:
    stream = io.StringIO()
    with Progress(PlainLines(stream, seconds=0)).task("x") as task:
        task.advance(2, amount=3, done=4)
    assert "x: done, 2 in " in stream.getvalue()
    assert "(amount 3, done 4)" in stream.getvalue()


def log_as_dask_does(verbose: bool) -> list[tuple[str, dict[str, str]]]:
    """What is shown of Dask's log."""
    import distributed  # noqa: F401

    stream = io.StringIO()
    logger = logging.getLogger("distributed.nanny")
    before = logging.getLogger("distributed").handlers
    with redirect_logs(Progress(JsonLines(stream), quiet=True, verbose=verbose)):
        logger.info("nothing")
        logger.warning("worker %s\x1b", "lost")
        logging.getLogger("distributed.client").error("gone")
        logging.getLogger("distributed.worker").warning("Compute Failed\nTraceback: ...")
        try:
            raise RuntimeError("deep inside")
        except RuntimeError:
            logger.warning("restart failed", exc_info=True)
    assert logging.getLogger("distributed").handlers == before
    events = [json.loads(line) for line in stream.getvalue().splitlines()]
    return [(event["level"], event["facts"]) for event in events]


LOST_WORKER = ("warning", {"message": "worker lost\x1b", "logger": "distributed.nanny"})


def test_what_dask_warns_of_is_said_in_the_same_form() -> None:
    lost, gone, failed, restart = log_as_dask_does(verbose=True)
    assert lost == LOST_WORKER
    assert gone == ("error", {"message": "gone", "logger": "distributed.client"})
    assert failed[1]["message"] == "Compute Failed\nTraceback: ..."
    assert "Traceback (most recent call last)" in restart[1]["message"]


def test_what_dask_says_of_an_error_stands_beside_our_sentence_only_on_request() -> None:
    assert log_as_dask_does(verbose=False) == [LOST_WORKER]


@pytest.mark.parametrize("make", [PlainLines, JsonLines, TerminalBars])
def test_quiet_says_warnings_and_errors_alone(make: Any) -> None:
    stream = Terminal()
    tell(Progress(make(stream), quiet=True))
    shown = stream.getvalue()
    assert "begins" not in shown
    assert "read" not in shown
    assert "thin" in shown
    assert "two" in shown


def test_bars_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    stream = Terminal()
    progress = Progress(TerminalBars(stream))
    tell(progress)
    with progress.task("outer", 2) as outer, progress.task("inner", 1):
        outer.advance()
    shown = stream.getvalue()
    assert "4 of 4 documents" in shown
    assert "score 3" in shown
    assert "error: two" in shown
    last = shown.rpartition("\x1b[2K")[2]
    assert "outer" in last
    assert "inner" not in last, "a part goes when it is done"


def test_text_from_outside_has_no_power_over_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    for stream, output in (
        (plain := Terminal(), PlainLines(plain, seconds=0)),
        (terminal := Terminal(), TerminalBars(terminal)),
    ):
        progress = Progress(output)
        progress.say(EVIL, word=EVIL)
        with progress.task(EVIL, unit=EVIL) as task:
            task.advance(1, word=EVIL)
        shown = stream.getvalue()
        assert "\x1b[31m" not in shown
        assert "\x07" not in shown
        assert "�[31mred[/] [bold]x" in shown


def test_the_stream_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    def shown(stream: io.StringIO, **options: Any) -> str:
        monkeypatch.setattr(sys, "stderr", stream)
        with make_progress(**options).task("read"):
            pass
        return stream.getvalue()

    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b" in shown(Terminal())
    assert "\x1b" not in shown(io.StringIO())
    assert json.loads(shown(Terminal(), log_format="json").splitlines()[0])["task"] == "read"
    assert shown(io.StringIO(), quiet=True) == ""
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in shown(Terminal())


def test_a_task_that_waits_for_the_compiler_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atd_dask.progress.POLL_SECONDS", 0.001)
    told = threading.Event()

    class Lines(PlainLines):
        def show_task(self, event: str, task: Task) -> None:
            super().show_task(event, task)
            if event == "waiting":
                told.set()

    stream = io.StringIO()
    with Progress(Lines(stream, seconds=3600)).task("read", 2, "pages", lambda: True) as task:
        assert told.wait(60)
        task.advance(2)
        assert task.note == ""
    lines = stream.getvalue().splitlines()
    assert lines[:2] == ["read: started, 2 pages", "read: compiling, once"]
    assert lines[2].startswith("read: done, 2 pages in ")
    assert len(lines) == 3


def test_a_task_that_advances_at_once_has_no_note() -> None:
    stream = io.StringIO()
    with Progress(PlainLines(stream)).task("read", 2, "pages", lambda: False) as task:
        task.advance(2)
    assert "compiling" not in stream.getvalue()


def test_secrets_of_addresses_are_in_no_output() -> None:
    for make in (PlainLines, JsonLines):
        stream = io.StringIO()
        progress = Progress(make(stream))
        progress.warn("s3://me:hunter2@host/a cannot be read", path="s3://me:hunter2@host/a")
        progress.error("https://host/a?token=hunter2 cannot be read")
        assert stream.getvalue().count("cannot be read") == 2
        assert "hunter2" not in stream.getvalue()


def test_a_job_without_news_says_that_it_is_alive() -> None:
    stream = io.StringIO()
    progress = Progress(PlainLines(stream))
    with progress.never_silent(0.05):
        wait_for(lambda: stream.getvalue().count("\n") >= 2)
    lines = set(stream.getvalue().splitlines())
    assert lines == {
        "no news for 0 s: the job is computing, or waiting for a disk or an object store",
    }
