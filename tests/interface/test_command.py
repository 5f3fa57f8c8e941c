from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from atd_dask import __version__
from atd_dask.errors import DamagedStoreError, InputError
from atd_dask.interface.command import atd
from atd_dask.interface.config import make_table

COMMANDS = {
    "atd-dask": [sys.executable, "-c", "from atd_dask.interface.command import main; main()"],
    "dask atd": [sys.executable, "-m", "dask", "atd"],
}
DATASET = "corpus: {dataset: synthetic}\n"


def execute(name: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs the real command in a process of its own."""
    return subprocess.run(
        [*COMMANDS[name], *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **options,
    )


def write(folder: Path, text: str = DATASET) -> str:
    path = folder / "c.yaml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("name", COMMANDS)
def test_help(name: str) -> None:
    done = execute(name, "--help")
    assert done.returncode == 0
    assert done.stderr == ""
    for command in ("run", "ingest", "validate", "inspect", "verify"):
        assert f"\n  {command} " in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_a_mistake_is_a_sentence_and_status_2(name: str, tmp_path: Path) -> None:
    path = write(
        tmp_path, "corpus: {dataset: synthetic}\nnull_model:\n  topics: {max: 1}\nsed: 1\n"
    )
    for command in ("validate", "run", "ingest"):
        done = execute(name, command, path)
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.splitlines() == [
            f"error: null_model.topics.max must be at least 2, got 1 ({path}, line 3)",
            f"error: sed is not a known key: did you mean seed? ({path}, line 4)",
        ]


def test_an_unreachable_scheduler_is_a_sentence_and_status_2(tmp_path: Path) -> None:
    done = execute("atd-dask", "run", write(tmp_path), "--scheduler", "tcp://127.0.0.1:none")
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: A Dask scheduler must answer at its address, got tcp://127.0.0")


@pytest.mark.parametrize("name", COMMANDS)
def test_interruption_ends_with_a_sentence_and_status_130(name: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        process = subprocess.Popen(
            [*COMMANDS[name], "run", write(tmp_path), "--scheduler", address],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with process, server.accept()[0]:
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert err == "error: Stopped on request; run the same command again to go on.\n"


def test_a_reader_that_goes_away_is_no_error() -> None:
    process = subprocess.Popen(
        [*COMMANDS["atd-dask"], "validate", "--keys"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr:
        assert process.stderr.read() == b""
    assert process.wait(timeout=60) == 1


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(atd, arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ["nothing"],
        ["run"],
        ["run", "c.yaml", "--nothing"],
        ["validate"],
        ["inspect"],
        ["run", "c.yaml", "--log-format", "xml"],
    ],
)
def test_wrong_usage_has_status_2(arguments: list[str]) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert "Usage: " in result.stderr


def test_version() -> None:
    assert invoke("--version").output == f"atd-dask, version {__version__}\n"


def test_validate(tmp_path: Path) -> None:
    path = write(tmp_path)
    result = invoke("validate", path)
    assert (result.exit_code, result.output) == (0, f"{path}: no mistakes\n")
    result = invoke("validate", path, "--set", "seed=x", "--set", "null_model.topics=1")
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        "error: seed must be a whole number, got x (--set seed=x)",
        "error: null_model.topics must be at least 2, got 1 (--set null_model.topics=1)",
    ]


def test_validate_lists_the_keys() -> None:
    result = invoke("validate", "--keys")
    assert (result.exit_code, result.output) == (0, make_table() + "\n")


def test_validate_tries_the_cluster(tmp_path: Path) -> None:
    path = write(tmp_path, DATASET + "cluster: {local: {workers: 1, threads: 1}}\n")
    result = invoke("validate", "--connect", path)
    assert result.exit_code == 0
    assert result.output.splitlines()[1].endswith(" answers, workers: 1")
    result = invoke("validate", "--connect", path, "--set", "cluster={address: nowhere}")
    assert result.exit_code == 2
    assert "must answer at its address, got nowhere" in result.stderr


def test_errors_as_json(tmp_path: Path) -> None:
    path = write(tmp_path, "seed: x\nnothing: 1\n")
    result = invoke("validate", path, "--log-format", "json")
    assert result.exit_code == 2
    events = [json.loads(line) for line in result.stderr.splitlines()]
    assert [event["level"] for event in events] == ["error"] * 3
    assert events[0]["facts"]["message"].startswith("seed must be")


class Job:
    """Stands for a pipeline; `outcome` is what it gives, or raises."""

    def __init__(self, outcome: Any) -> None:
        self.outcome = outcome
        self.calls: list[tuple[Any, ...]] = []

    def __call__(self, config: Any, client: Any, progress: Any, fresh: bool) -> Any:
        self.calls.append((config, client, fresh))
        progress.say("at work")
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


SUMMARY = {
    "train": {"documents": 3, "tokens": 9, "terms": 5, "path": "somewhere", "skipped": {}},
}
MODEL = {
    "n_topics": 4,
    "bic": 1234.5,
    "topics_per_document": 1.25,
    "salient_words_per_topic": 7,
    "path": "elsewhere",
}
WORDS = [{"word": "coffee", "occurring": True}, {"word": "tea", "occurring": False}]
RESULT = {
    "clusters": [
        {"index": 1, "size": 9, "p_value": 0.001, "significant": True, "salient_words": WORDS},
    ]
}
# What the pipelines of a command make, and what the command then prints.
STAGES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "ingest": (
        SUMMARY,
        [
            "part   documents  tokens  terms  skipped  store",
            "train  3          9       5      0        somewhere",
        ],
    ),
    "train": (
        MODEL,
        [
            "null model: 4 topics, BIC 1,234.5, 1.25 topics a document, 7.0 words of its own a"
            " topic, elsewhere",
        ],
    ),
    "detect": (
        RESULT,
        [
            "cluster  documents  p-value  significant  words",
            "1        9          0.001    yes          coffee",
        ],
    ),
}
STAGES["run"] = (
    {"corpus": SUMMARY, "null_model": MODEL, "result": RESULT},
    [line for _, lines in STAGES.values() for line in lines],
)


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Job:
    job = Job(None)
    for stage in STAGES:
        module = types.ModuleType(stage)
        setattr(module, stage, job)
        monkeypatch.setitem(sys.modules, f"atd_dask.pipelines.{stage}", module)

    class Client:
        dashboard_link = "http://127.0.0.1/status"

        def scheduler_info(self) -> dict[str, str]:
            return {"address": "tcp://127.0.0.1:8786"}

    @contextmanager
    def connect(cluster: Any, scheduler: Any) -> Iterator[Client]:
        job.calls.append((cluster, scheduler))
        yield Client()

    monkeypatch.setattr("atd_dask.distribution.clients.connect", connect)
    return job


@pytest.mark.parametrize("command", STAGES)
def test_a_job_gets_what_the_options_say(command: str, job: Job, tmp_path: Path) -> None:
    job.outcome, lines = STAGES[command]
    arguments = ["--fresh", "--output", "out: ö", "--scheduler", "tcp://x:1", "--set", "seed=5"]
    result = invoke(command, write(tmp_path), *arguments)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == lines
    assert result.stderr.splitlines() == [
        "c on tcp://127.0.0.1:8786 (dashboard http://127.0.0.1/status)",
        "at work",
    ]
    assert job.calls[0] == (None, "tcp://x:1")
    config, _, fresh = job.calls[1]
    assert (config.output, config.seed, fresh) == ("out: ö", 5, True)


def test_quiet(job: Job, tmp_path: Path) -> None:
    job.outcome, _ = STAGES["run"]
    result = invoke("run", write(tmp_path), "--quiet")
    assert result.exit_code == 0
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("error", "status", "sentence"),
    [
        (InputError("a.jsonl must be readable"), 2, "error: a.jsonl must be readable"),
        (
            DamagedStoreError("chunk 3 is not as it was written"),
            1,
            "error: DamagedStoreError: chunk 3 is not as it was written; --verbose shows where it"
            " came from",
        ),
        (
            RuntimeError("one \x1b[31m\ntwo"),
            1,
            "error: RuntimeError: one �[31m; --verbose shows where it came from",
        ),
        (
            BrokenPipeError("a worker has gone"),
            1,
            "error: ConnectionError: a worker has gone; --verbose shows where it came from",
        ),
        (MemoryError(), 1, "error: MemoryError; --verbose shows where it came from"),
        (
            KeyboardInterrupt(),
            130,
            "error: Stopped on request; run the same command again to go on.",
        ),
    ],
)
def test_failures(
    job: Job, tmp_path: Path, error: BaseException, status: int, sentence: str
) -> None:
    job.outcome = error
    result = invoke("run", write(tmp_path))
    assert result.exit_code == status
    assert result.stdout == ""
    assert result.stderr.splitlines()[2:] == [sentence]


def test_verbose_shows_where_an_error_came_from(job: Job, tmp_path: Path) -> None:
    job.outcome = RuntimeError("deep inside")
    result = invoke("run", write(tmp_path), "--verbose")
    assert result.exit_code == 1
    assert "Traceback (most recent call last)" in result.stderr
    assert result.stderr.splitlines()[-1] == "error: RuntimeError: deep inside"


def test_inspect_and_verify(tmp_path: Path) -> None:
    from tests.storage.corpora import write_corpus

    path = str(tmp_path / "a.zarr")
    write_corpus(path)
    result = invoke("inspect", path)
    assert result.exit_code == 0
    assert "documents: 20" in result.stdout.splitlines()
    result = invoke("inspect", path, "--json")
    assert json.loads(result.stdout)["documents"] == 20
    result = invoke("verify", path)
    assert (result.exit_code, result.output) == (0, f"{path}: no damage\n")
    chunk = max((file for file in Path(path).rglob("c/*") if file.is_file()), key=str)
    chunk.unlink()
    result = invoke("verify", path)
    assert result.exit_code == 1
    (line,) = result.stdout.splitlines()
    assert line.startswith(f"{path}: ")
    assert "missing" in line


def test_inspect_what_is_not_there(tmp_path: Path) -> None:
    result = invoke("inspect", str(tmp_path / "none.zarr"))
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1


def test_every_command_says_what_it_does() -> None:
    for command in atd.commands.values():
        assert command.help
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help
