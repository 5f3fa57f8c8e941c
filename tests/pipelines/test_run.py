"""The whole job in processes of its own: stopped, met by another one, resumed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from atd_dask.cli.outputs import make_progress
from atd_dask.config.cluster_options import ClusterOptions
from atd_dask.config.loader import load
from atd_dask.distribution.engine.observation import list_versions
from atd_dask.documents import PARTS
from atd_dask.errors import InputError, SchedulerError
from atd_dask.pipelines.run import STAGES, RunProducts, run
from atd_dask.stages.memory import estimate_memory
from atd_dask.stages.run_record import describe_config, describe_error, hide_secrets
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.locks import NAME
from atd_dask.storage.run_layout import RunLayout
from atd_dask.text.options import Source
from tests.clusters import local_client, wait_for
from tests.pipelines.hold import hold_after

COMMAND = [sys.executable, "-c", "from atd_dask.cli.command import main; main()"]

CONFIG = """
name: job
cluster: {local: {workers: 1, threads: 1}}
corpus:
  train: {format: ldac, path: train.ldac, vocabulary: words.txt}
  validation: {format: ldac, path: train.ldac, vocabulary: words.txt}
  test: {format: ldac, path: test.ldac, vocabulary: words.txt}
null_model: {topics: {max: 8, min: 4}}
detection: {settle: false, seeds: 2, max_clusters: 1, significance: {replicates: 100, searches: 0}}
"""
CHECKPOINTS = "checkpoints/train/restart-*.checkpoint"
RESTARTS = 6


def prepare(folder, restarts=1, n_docs=200):
    """A small corpus of two subjects, and its configuration."""
    rng = random.Random(2)
    (folder / "words.txt").write_text("".join(f"word{n}\n" for n in range(100)))
    for part in ("train", "test"):
        lines = []
        for d in range(n_docs):
            own = {rng.randrange(50) + 50 * (d % 2): rng.randrange(1, 5) for _ in range(25)}
            lines.append(" ".join([str(len(own)), *(f"{n}:{c}" for n, c in own.items())]))
        (folder / f"{part}.ldac").write_text("".join(f"{line}\n" for line in lines))
    (folder / "conf.yaml").write_text(
        CONFIG.replace("null_model: {", f"null_model: {{restarts: {restarts}, ")
    )


@contextmanager
def start(folder, *arguments, env=None):
    """A run that is under way."""
    with subprocess.Popen(
        [*COMMAND, "run", "conf.yaml", *arguments],
        cwd=folder,
        env=os.environ | (env or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def finish(folder, *arguments):
    with start(folder, *arguments) as process:
        out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    return out, err


def read(folder, name):
    return json.loads((folder / "runs" / "job" / name).read_text())


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """An undisturbed run: its folder, its output, and its record."""
    folder = tmp_path_factory.mktemp("undisturbed")
    prepare(folder, RESTARTS)
    out, err = finish(folder, "--log-format", "json")
    return folder, out, err, read(folder, "run.json")


def test_the_log_has_a_line_an_event(expected):
    _, _, err, told = expected
    assert all(line.isprintable() for line in err.splitlines())
    events = [json.loads(line) for line in err.splitlines()]
    assert events[0]["facts"] == {
        "message": "job: ingest, train, detect",
        "output": "runs/job",
    }
    where = events[1]["facts"]
    assert where["message"].startswith("on tcp://127.0.0.1:")
    assert (where["workers"], where["threads"]) == (1, 1)
    assert where["dashboard"].startswith("http://127.0.0.1:")
    ended = [(event["stage"], event["task"]) for event in events if event["event"] == "end"]
    assert ended[0] == ("ingest", "look at the documents")
    assert ended.index(("train", "train")) < ended.index(("detect", "detect"))
    assert {event["run"] for event in events} == {told["id"]}
    assert [event["facts"] for event in events if event["level"] != "info"] == []


def test_the_record_of_a_run(expected):
    folder, out, _, told = expected
    assert (told["format"], told["name"]) == ("atd-dask-run/1", "job")
    assert (told["status"], told["error"]) == ("finished", None)
    assert told["command"][1:] == ["run", "conf.yaml", "--log-format", "json"]
    assert told["started"] < told["ended"]
    assert list(told["stages"]) == ["ingest", "train", "detect", "report"]
    assert 0 < sum(stage["seconds"] for stage in told["stages"].values()) <= told["seconds"]
    assert not any(stage["reused"] for stage in told["stages"].values())
    of = told["peak_memory_bytes_of"]
    assert of["client"] > 2**25
    assert of["workers"] == of["largest_worker"] > 2**25
    assert told["peak_memory_bytes"] == of["client"] + of["workers"] < 2**32
    assert told["peak_memory_bytes"] == max(s["peak_memory_bytes"] for s in told["stages"].values())
    cluster = told["cluster"]
    assert (cluster["workers"], cluster["threads"]) == (1, 1)
    assert cluster["memory_bytes"] == cluster["smallest_worker_bytes"] > 2**28
    assert told["versions"] == list_versions()
    assert told["configuration"]["null_model"]["restarts"] == RESTARTS
    lines = out.splitlines()
    for name in ("result.json", "clusters.csv", "report.html", "run.json"):
        assert any(line.endswith(f": runs/job/{name}") for line in lines)
        assert (folder / "runs" / "job" / name).is_file()
    assert not (folder / "runs" / "job" / NAME).exists()


def test_a_finished_run_needs_no_cluster(expected):
    folder, out, _, first = expected
    before = (folder / "runs" / "job" / "result.json").stat()
    again, err = finish(folder, "--set", "cluster={address: 'tcp://127.0.0.1:1'}")
    assert again == out
    assert err.splitlines()[-1] == "nothing to do"
    assert (folder / "runs" / "job" / "result.json").stat() == before
    told = read(folder, "run.json")
    assert [stage["reused"] for stage in told["stages"].values()] == [True] * 4
    for name, stage in told["stages"].items():
        assert stage["made"] == first["stages"][name]["made"]


def test_a_run_that_is_stopped_goes_on(expected, tmp_path):
    undisturbed, *_ = expected
    prepare(tmp_path, RESTARTS)
    output = tmp_path / "runs" / "job"
    with start(tmp_path, env=hold_after(tmp_path / "hold", 4, "train")) as process:
        wait_for((output / NAME).exists)
        with start(tmp_path) as second:
            out, err = second.communicate(timeout=240)
        assert (second.returncode, out) == (1, "")
        assert err.startswith(
            f"error: only one run may write to runs/job at a time, but process {process.pid} on "
        )
        assert err.count("\n") == 1
        wait_for(lambda: list(output.glob(CHECKPOINTS)))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=240)
    assert (process.returncode, out) == (130, "")
    lines = err.splitlines()
    assert lines[-1] == "error: Stopped on request; run the same command again to resume."
    assert lines[-2].startswith("train: stopped, ")
    assert not (output / NAME).exists()
    told = read(tmp_path, "run.json")
    assert (told["status"], told["error"]) == ("stopped", "stopped on request")
    assert told["stages"]["ingest"]["made"]["seconds"] > 0
    assert told["stages"]["train"]["made"] is None
    assert list(output.glob(CHECKPOINTS))

    _, err = finish(tmp_path, "--performance-report", "page.html")
    assert "the corpus stores are up to date" in err
    assert "Dask Performance Report" in (tmp_path / "page.html").read_text()
    name = "result.json"
    assert (output / name).read_bytes() == (undisturbed / "runs/job" / name).read_bytes()
    told = read(tmp_path, "run.json")
    assert {name: stage["reused"] for name, stage in told["stages"].items()} == {
        "ingest": True,
        "train": False,
        "detect": False,
        "report": False,
    }


def test_a_second_request_ends_at_once_and_its_lock_is_taken_over(tmp_path):
    prepare(tmp_path, RESTARTS)
    lock = tmp_path / "runs" / "job" / NAME
    with start(tmp_path, env=hold_after(tmp_path / "hold", 1)) as process:
        wait_for(lambda: lock.exists() and (tmp_path / "runs/job/checkpoints").exists())
        # To end in good order it would wait for its workers, which do not answer any more.
        workers = psutil.Process(process.pid).children(recursive=True)
        try:
            for worker in workers:
                worker.suspend()
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGINT)
            process.wait(timeout=240)
        finally:
            for worker in workers:
                with suppress(psutil.NoSuchProcess):
                    worker.kill()
    assert process.returncode in (130, 143)
    assert lock.exists(), "what is ended at once does not tidy up"
    with subprocess.Popen(
        [*COMMAND, "ingest", "conf.yaml"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as again:
        _, err = again.communicate(timeout=240)
    assert again.returncode == 0
    assert err.startswith(f"warning: resuming in runs/job after process {process.pid} on ")
    assert not lock.exists()


@pytest.fixture(scope="module")
def client():
    with local_client(2) as made:
        yield made


@pytest.fixture
def config(tmp_path):
    prepare(tmp_path)
    return load(tmp_path / "conf.yaml", [f"output={tmp_path / 'out'}"])


def told_by(config):
    return json.loads(Path(config.output, "run.json").read_text())


def run_quietly(config, client, **options):
    return run(config, client, make_progress(quiet=True), **options)


def test_the_stages_of_single_commands_come_together(config, client):
    made = run_quietly(config, client, stages=["ingest"])
    assert made == RunProducts(corpus=made.corpus)
    assert made.corpus is not None
    made = run_quietly(config, client, stages=["train"])
    assert made == RunProducts(null_model=made.null_model)
    assert made.null_model is not None
    stages = told_by(config)["stages"]
    assert (stages["ingest"]["reused"], stages["train"]["reused"]) == (True, False)
    run_quietly(config, client)
    assert list(told_by(config)["stages"]) == ["ingest", "train", "detect", "report"]
    run_quietly(config, client, fresh=True)
    assert not any(stage["reused"] for stage in told_by(config)["stages"].values())


def test_a_stage_that_fails_is_told(config, client, monkeypatch):
    def fail(*arguments):
        raise InputError("this cannot be")

    monkeypatch.setitem(STAGES, "train", ("null_model", fail))
    with pytest.raises(InputError, match="this cannot be"):
        run_quietly(config, client)
    told = told_by(config)
    assert (told["status"], told["error"]) == ("failed", "this cannot be")
    assert list(told["stages"]) == ["ingest", "train"]
    assert told["stages"]["ingest"]["made"] is not None
    assert told["stages"]["train"]["made"] is None
    with pytest.raises(InputError, match="this cannot be"):
        run_quietly(config, client)
    assert told_by(config)["stages"]["ingest"]["reused"]


def test_tasks_belong_to_spans(config, client):
    run_quietly(config, client)
    spans = client.cluster.scheduler.extensions["spans"].spans.values()
    assert {("job", "train"), ("job", "detect")} <= {span.name for span in spans}


def test_workers_need_memory_for_a_task(config, client, monkeypatch):
    run_quietly(config, client, stages=["ingest"])
    stores = {part: CorpusStore.open(RunLayout(config.output).corpus(part)) for part in PARTS}
    needed, _ = estimate_memory(config, stores)
    # The batch with its vectors and the documents of validation, with at most 25 words each; 8
    # topics of 100 words; and the normal documents of the contrast search with their vectors.
    normal = 20 * sum(stores[part].n_entries for part in ("train", "validation"))
    batch, validation = 200 * (100 + 36 * 25), 8 * (201 + 200 * 25)
    topics = 8 * 28 * 100 + 16 * 100
    assert 200 * 100 + 8 * 201 + normal < needed < batch + validation + topics + normal
    monkeypatch.setattr("atd_dask.pipelines.run.estimate_memory", lambda *given: (2**50, "it"))
    with pytest.raises(
        SchedulerError,
        match=r"every worker must have memory for it, which take about 1,048,576.0 GiB, but the"
        r" smallest has [0-9.]+ GiB",
    ):
        run_quietly(config, client, stages=["train"])


def test_workers_need_memory_to_read_documents(config, client, monkeypatch):
    monkeypatch.setattr("atd_dask.pipelines.run.READING", (2**50, "the documents of a task"))
    with pytest.raises(SchedulerError, match="must have memory for the documents of a task, which"):
        run_quietly(config, client, stages=["ingest"])


def test_secrets_are_not_written_down(config, client):
    cluster = ClusterOptions(class_="a.B", kwargs={"password": "hunter2"})
    command = [
        "atd-dask",
        "run",
        "c",
        "--set",
        "cluster.kwargs.password=hunter2",
        "--set",
        "seed=1",
    ]
    run_quietly(replace(config, cluster=cluster), client, stages=["ingest"], command=command)
    assert "hunter2" not in Path(config.output, "run.json").read_text()
    assert hide_secrets(command)[4:] == [
        "cluster.kwargs.password=not written down",
        "--set",
        "seed=1",
    ]


def test_secrets_of_addresses_are_not_written_down(config):
    address = "s3://me:hunter2@host/normal.jsonl?versionId=1&token=hunter2"
    corpus = replace(config.corpus, train=Source(format="jsonl", path=address))
    described = describe_config(replace(config, corpus=corpus, output="s3://me:hunter2@host/out"))
    assert described["output"] == "s3://***@host/out"
    path = "s3://***@host/normal.jsonl?versionId=1&token=***"
    assert described["corpus"]["train"]["path"] == path
    assert hide_secrets(["atd-dask", "run", f"--set=corpus.train.path={address}"])[2].endswith(path)
    assert describe_error(InputError(f"{address} cannot be read")) == f"{path} cannot be read"
