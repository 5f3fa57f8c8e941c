from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from atd_dask import __version__
from atd_dask.cli.command import atd
from atd_dask.config.loader import make_table
from atd_dask.errors import DamagedStoreError, InputError
from atd_dask.pipelines.run import RunProducts
from atd_dask.storage.locations import MARK
from atd_dask.storage.locks import NAME, lock_folder
from atd_dask.storage.ownership import claim_folder
from atd_dask.storage.stage_notes import ModelSummary
from tests.results import make_alert, make_line, make_part, make_result

COMMANDS = {
    "atd-dask": [sys.executable, "-c", "from atd_dask.cli.command import main; main()"],
    "dask atd": [sys.executable, "-m", "dask", "atd"],
}
DATASET = "corpus: {dataset: synthetic}\n"


def execute(name: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the real command in a process of its own."""
    return subprocess.run(
        [*COMMANDS[name], *arguments],
        capture_output=True,
        text=True,
        timeout=240,
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
    done = execute(
        "atd-dask", "run", write(tmp_path), "--scheduler", "tcp://127.0.0.1:none", cwd=tmp_path
    )
    assert done.returncode == 2
    assert done.stdout == ""
    _, line = done.stderr.splitlines()
    assert line.startswith("error: A Dask scheduler must answer at its address, got tcp://127.0.0")


@pytest.mark.parametrize("name", COMMANDS)
def test_interruption_ends_with_a_sentence_and_status_130(name: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(240)
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        process = subprocess.Popen(
            [*COMMANDS[name], "run", write(tmp_path), "--scheduler", address],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with process, server.accept()[0]:
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=240)
    assert process.returncode == 130
    assert out == ""
    assert err.splitlines() == [
        "c: ingest, train, detect (output runs/c)",
        "error: Stopped on request; run the same command again to resume.",
    ]


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
    assert process.wait(timeout=240) == 1


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
    """Stands in for the pipeline; `outcome` is what it returns or raises."""

    def __init__(self, outcome: Any) -> None:
        self.outcome = outcome
        self.calls: list[tuple[Any, ...]] = []

    def __call__(
        self, config: Any, client: Any, progress: Any, *, fresh: bool, stages: Any, command: Any
    ) -> Any:
        self.calls.append((config, stages, fresh))
        assert Path(config.output, NAME).exists(), "the folder is locked"
        progress.say("at work")
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


SUMMARY = {"train": make_part(documents=3, copies=1, tokens=9, terms=5, path="somewhere")}
MODEL = ModelSummary(
    path="elsewhere",
    digest="",
    n_topics=4,
    bic=1234.5,
    topics_per_document=1.25,
    salient_words_per_topic=7,
)
RAISED = {"probability": 0.2, "shared_probability": 0.1}
WORDS = [
    {"word": "coffe", "written": "coffee", "occurring": True} | RAISED,
    {"word": "tea", "written": "tea", "occurring": False} | RAISED,
]
RESULT = make_result(
    corpus={
        part: {"documents": documents, "tokens": 9, "terms": 5}
        for part, documents in (("train", 1234), ("test", 5))
    },
    null_model={"n_topics": 7},
    clusters=[{"size": 9, "p_value": 0.001, "salient_words": WORDS}],
)
# What the pipeline makes for a command, and what the command then prints.
STAGES: dict[str, tuple[RunProducts, list[str]]] = {
    "ingest": (
        RunProducts(corpus=SUMMARY),
        [
            "part   documents  copies  tokens  terms  skipped",
            "train  3          1       9       5      0",
            "store of train: somewhere",
        ],
    ),
    "train": (
        RunProducts(null_model=MODEL),
        [
            "null model: 4 topics, BIC 1,234.5, 1.25 topics per document, 7.0 salient words",
            "  per topic",
            "null model: elsewhere",
        ],
    ),
    "detect": (
        RunProducts(result=RESULT),
        [
            "cluster  documents  p-value  significant",
            "1        9          0.001    yes",
            "words of 1: coffee",
        ],
    ),
}
STAGES["run"] = (
    RunProducts(SUMMARY, MODEL, RESULT),
    [line for _, lines in STAGES.values() for line in lines],
)


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Job:
    job = Job(None)
    module = types.ModuleType("run")
    vars(module).update(run=job, STAGES=dict.fromkeys(("ingest", "train", "detect")))
    monkeypatch.setitem(sys.modules, "atd_dask.pipelines.run", module)
    monkeypatch.chdir(tmp_path)

    class Client:
        dashboard_link = "http://127.0.0.1/status"
        cluster = None

        def scheduler_info(self, n_workers: int) -> dict[str, Any]:
            worker = {"memory_limit": 2**31, "nthreads": 4}
            return {"address": "tcp://127.0.0.1:8786", "workers": {"a": worker, "b": worker}}

        def run(self, function: Any, on_error: str) -> dict[str, Any]:
            return {"a": function(), "b": function() | {"numpy": "0.1\x1b[31m"}}

    @contextmanager
    def connect(cluster: Any, scheduler: Any, dask_logs: bool) -> Iterator[Client]:
        job.calls.append((cluster, scheduler, dask_logs))
        yield Client()

    monkeypatch.setattr("atd_dask.distribution.engine.clients.connect", connect)
    return job


@pytest.mark.parametrize("command", STAGES)
def test_a_job_gets_what_the_options_say(command: str, job: Job, tmp_path: Path) -> None:
    job.outcome, lines = STAGES[command]
    arguments = ["--fresh", "--output", "out: ö", "--scheduler", "tcp://x:1", "--set", "seed=5"]
    result = invoke(command, write(tmp_path), *arguments)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == lines
    stages = ("ingest", "train", "detect") if command == "run" else (command,)
    lines = result.stderr.splitlines()
    assert lines[:2] == [
        f"c: {', '.join(stages)} (output out: ö)",
        "on tcp://127.0.0.1:8786 (workers 2, threads 8, memory 4.0 GiB,"
        " dashboard http://127.0.0.1/status)",
    ]
    assert lines[2].startswith("warning: workers should run numpy ")
    assert "but 1 of 2 run 0.1�[31m, such as b: results may differ" in lines[2]
    assert lines[3:] == ["at work"]
    assert job.calls[0] == (None, "tcp://x:1", False)
    config, given, fresh = job.calls[1]
    assert (config.output, config.seed, given, fresh) == ("out: ö", 5, stages, True)
    assert [path.name for path in Path("out: ö").iterdir()] == [MARK], "the lock is gone"


def test_quiet(job: Job, tmp_path: Path) -> None:
    job.outcome, _ = STAGES["run"]
    result = invoke("run", write(tmp_path), "--quiet")
    assert result.exit_code == 0
    (line,) = result.stderr.splitlines()
    assert line.startswith("warning: ")


@pytest.mark.parametrize("command", ["run", "detect"])
@pytest.mark.parametrize("significant", [True, False])
def test_what_was_found_as_the_exit_status(
    command: str, significant: bool, job: Job, tmp_path: Path
) -> None:
    job.outcome, _ = STAGES[command]
    cluster = replace(RESULT.clusters[0], significant=significant)
    job.outcome = replace(job.outcome, result=replace(RESULT, clusters=(cluster,)))
    assert invoke(command, write(tmp_path)).exit_code == 0
    assert invoke(command, write(tmp_path), "--exit-code").exit_code == (3 if significant else 0)


def test_where_everything_is(job: Job, tmp_path: Path) -> None:
    job.outcome, lines = STAGES["run"]
    output = tmp_path / "runs" / "c"
    claim_folder(str(output))
    for name in ("result.json", "report.html", "else.txt"):
        (output / name).touch()
    assert invoke("run", write(tmp_path)).stdout.splitlines() == [
        *lines,
        "result: runs/c/result.json",
        "report: runs/c/report.html",
    ]


def test_a_folder_of_others_is_not_written_into(job: Job, tmp_path: Path) -> None:
    output = tmp_path / "runs" / "c"
    (output / "checkpoints" / "train").mkdir(parents=True)
    (output / "checkpoints" / "train" / "mine.checkpoint").touch()
    result = invoke("run", write(tmp_path))
    assert result.exit_code == 2
    assert job.calls == []
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: output must be a new folder, an empty one or one that atd-dask")
    assert "but runs/c holds checkpoints: choose another folder with --output" in line
    assert [path.name for path in output.rglob("*")] == ["checkpoints", "train", "mine.checkpoint"]


def test_a_folder_that_another_run_writes(job: Job, tmp_path: Path) -> None:
    with lock_folder("runs/c", print):
        result = invoke("run", write(tmp_path))
    assert result.exit_code == 1
    assert job.calls == []
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: only one run may write to runs/c at a time, but process ")


def test_a_finished_run_starts_no_cluster(job: Job, tmp_path: Path) -> None:
    job.outcome, _ = STAGES["run"]
    claim_folder(str(tmp_path / "runs" / "c"))
    stages = tmp_path / "runs" / "c" / "stages"
    stages.mkdir()
    for stage in ("ingest", "train", "detect"):
        assert invoke("run", write(tmp_path)).exit_code == 0
        assert job.calls.pop(0) == (None, None, False)
        job.calls.clear()
        (stages / f"{stage}.json").touch()
    assert invoke("run", write(tmp_path)).exit_code == 0
    assert len(job.calls) == 1
    assert invoke("run", write(tmp_path), "--fresh").exit_code == 0
    assert len(job.calls) == 3


@pytest.mark.parametrize(
    ("error", "status", "sentence"),
    [
        (InputError("a.jsonl must be readable"), 2, "error: a.jsonl must be readable"),
        (
            DamagedStoreError("chunk 3 is not as it was written"),
            1,
            "error: chunk 3 is not as it was written",
        ),
        (
            RuntimeError("one \x1b[31m\ntwo"),
            1,
            "error: RuntimeError: one �[31m; --verbose shows the traceback",
        ),
        (
            BrokenPipeError("a worker has gone"),
            1,
            "error: ConnectionError: a worker has gone; --verbose shows the traceback",
        ),
        (MemoryError(), 1, "error: MemoryError; --verbose shows the traceback"),
        (
            KeyboardInterrupt(),
            130,
            "error: Stopped on request; run the same command again to resume.",
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
    assert result.stderr.splitlines()[4:] == [sentence]
    assert not Path("runs/c", NAME).exists()


def test_verbose_shows_where_an_error_came_from(job: Job, tmp_path: Path) -> None:
    job.outcome = RuntimeError("deep inside")
    result = invoke("run", write(tmp_path), "--verbose")
    assert job.calls[0] == (None, None, True), "a cluster that it starts shows its logs"
    assert result.exit_code == 1
    assert "Traceback (most recent call last)" in result.stderr
    assert result.stderr.splitlines()[-1] == "error: RuntimeError: deep inside"


def test_every_command_says_what_it_does() -> None:
    for command in atd.commands.values():
        assert command.help
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help


NEWS: dict[str, Any] = {
    "cluster": 1,
    "kind": "continuing",
    "size": 9,
    "words": ["coffee\x1b[31m"],
    "documents": [{"id": "a", "sweep": 2}],
}
ALERT = make_alert(2, NEWS)
SWEPT = make_line(2, documents=20, tested=60, unseen_share=0.0123, clusters=[NEWS | {"added": 1}])


@pytest.mark.parametrize(
    ("alerts", "undelivered", "options", "status"),
    [
        ((), (), ["--exit-code"], 0),
        ((ALERT,), (), [], 0),
        ((ALERT,), (), ["--exit-code"], 3),
        ((ALERT,), ("no answer",), ["--exit-code"], 3),
        ((), ("no answer",), ["--exit-code"], 1),
    ],
)
def test_a_sweep(
    alerts: Any,
    undelivered: Any,
    options: list[str],
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def sweep(config: Any, client: Any, progress: Any, command: Any) -> Any:
        assert Path(config.output, NAME).exists(), "the folder is locked"
        assert (config.output, config.seed) == ("out", 5)
        return types.SimpleNamespace(lines=(SWEPT,), alerts=alerts, undelivered=undelivered)

    module = types.ModuleType("sweep")
    vars(module).update(sweep=sweep)
    monkeypatch.setitem(sys.modules, "atd_dask.pipelines.sweep", module)
    monkeypatch.chdir(tmp_path)
    result = invoke("sweep", write(tmp_path), "--output", "out", "--set", "seed=5", *options)
    assert result.exit_code == status
    table, told = result.stdout.splitlines()[:2], result.stdout.splitlines()[2:]
    assert table == [
        "sweep  new  tested  unseen words  clusters",
        "2      20   60      1.2%          1",
    ]
    news = ["sweep 2: cluster 1 continues, 1 of 9 documents: coffee�[31m"] if alerts else []
    assert told == [
        *news,
        "report of sweep 2: out/sweeps/0002/report.html",
        "history: out/index.html",
    ]


def test_a_sweep_without_news(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("sweep")
    outcome = types.SimpleNamespace(lines=(), alerts=(), undelivered=())
    vars(module).update(sweep=lambda *arguments: outcome)
    monkeypatch.setitem(sys.modules, "atd_dask.pipelines.sweep", module)
    monkeypatch.chdir(tmp_path)
    result = invoke("sweep", write(tmp_path), "--exit-code")
    assert (result.exit_code, result.stdout) == (0, "nothing new\n")
