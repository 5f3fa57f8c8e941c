"""Sweeps of a repository that grows, in this process."""

from __future__ import annotations

import json
import re
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from click.testing import CliRunner

from atd_dask.cli.command import atd
from atd_dask.config.sweep_config import AlertConfig, SweepConfig
from atd_dask.errors import ConfigError, DamagedStoreError, InputError, SchedulerError
from atd_dask.storage.corpus import CorpusStore
from atd_dask.sweeps import alerts, retraining
from atd_dask.sweeps.state import Drift, ModelNote, SweepState, read_state
from tests.clusters import local_client
from tests.pipelines.sweeping import (
    add_day,
    age,
    make_documents,
    make_lines,
    prepare,
    read_history,
    run_sweep,
)
from tests.servers import Silent, serve


@pytest.fixture(scope="module")
def client():
    with local_client(1) as made:
        yield made


class NoCluster:
    """A cluster that must not be used."""

    def __getattr__(self, name):
        raise AssertionError(f"a cluster was asked for {name}")


def tell_clusters(outcome):
    return [
        (cluster.cluster, cluster.kind, len(cluster.documents), cluster.size)
        for alert in outcome.alerts
        for cluster in alert.clusters
    ]


def test_a_cluster_that_trickles_in(tmp_path, client):
    prepare(tmp_path)
    told = []
    for day, n_unusual in enumerate([0, 5, 5, 5, 0], 1):
        add_day(tmp_path, day, n_unusual=n_unusual)
        told.append(tell_clusters(run_sweep(tmp_path, client)))
    assert told == [
        [],
        [(1, "new", 5, 5)],
        [(1, "continuing", 5, 10)],
        [(1, "continuing", 5, 15)],
        [],
    ]
    output = tmp_path / "out"
    state = read_state(str(output))
    (cluster,) = state.clusters
    assert cluster.sweeps == (2, 3, 4)
    assert set(cluster.documents) == {
        f"day{day}-unusual-{n}" for day in (2, 3, 4) for n in range(5)
    }
    assert state.pending == {}

    lines = read_history(tmp_path)
    assert [line["sweep"] for line in lines] == [1, 2, 3, 4, 5]
    assert [line["documents"] for line in lines] == [30, 35, 35, 35, 30]
    # The window has two sweeps, whose documents in clusters are known.
    assert [line["tested"] for line in lines] == [30, 65, 90, 90, 90]
    assert lines[1]["clusters"][0]["kind"] == "new"
    assert lines[0]["trained"] == "the first one"
    assert {line["trained"] for line in lines[1:]} == {None}
    for sweep in range(1, 6):
        folder = output / "sweeps" / f"{sweep:04d}"
        for name in ("result.json", "clusters.csv", "scores.json", "report.html", "run.json"):
            assert (folder / name).is_file()
    result = json.loads((output / "sweeps/0002/result.json").read_text())
    assert {d["sweep"] for d in result["clusters"][0]["documents"]} == {2}
    assert (result["clusters"][0]["cluster"], result["clusters"][0]["kind"]) == (1, "new")
    assert result["sweep"]["sweeps"] == [1, 2]
    report = (output / "sweeps/0002/report.html").read_text()
    text = make_documents("day2", 30, 5)[-1]["text"]
    assert "All documents of the batch" in report
    marked = re.sub(r"</?\w+[^>]*>", "", report)
    assert text in marked
    page = (output / "index.html").read_text()
    assert "sweeps/0005/report.html" in page

    described = json.loads(CliRunner().invoke(atd, ["inspect", str(output), "--json"]).stdout)
    assert (described["sweeps"], described["null_model"]["generation"]) == (5, 1)
    assert described["clusters"]["cluster 1"]["documents"] == 15
    lines = CliRunner().invoke(atd, ["inspect", str(output)]).stdout.splitlines()
    assert f"history: {output}/index.html" in lines

    # Nothing new: no cluster is needed, nothing is written.
    before = {path: path.stat().st_mtime_ns for path in output.rglob("*")}
    outcome = run_sweep(tmp_path, NoCluster())
    assert (outcome.lines, outcome.alerts) == ((), ())
    assert {path: path.stat().st_mtime_ns for path in output.rglob("*")} == before


def test_a_false_alarm_that_is_dismissed(tmp_path, client):
    prepare(tmp_path)
    for day, n_unusual in enumerate([0, 5], 1):
        add_day(tmp_path, day, n_unusual=n_unusual)
        run_sweep(tmp_path, client)
    dismissed = "sweep.dismissed=[1]"
    told = []
    for day in (3, 4, 5):
        add_day(tmp_path, day, n_unusual=3)
        told.append(tell_clusters(run_sweep(tmp_path, client, dismissed)))
    assert told == [[], [], []]
    assert len(read_state(str(tmp_path / "out")).clusters[0].documents) == 5

    add_day(tmp_path, 6)
    run_sweep(tmp_path, client, dismissed, "sweep.retrain.age=1")
    normal = [
        id
        for part in ("train", "validation")
        for id in CorpusStore.open(f"{tmp_path}/out/models/0002/corpus/{part}.zarr").ids()
    ]
    assert {f"day2-unusual-{n}" for n in range(5)} <= set(normal)

    add_day(tmp_path, 7)
    with pytest.raises(InputError, match="must have numbers of reported clusters, got 2, but 1"):
        run_sweep(tmp_path, client, "sweep.dismissed=[2]")


def test_documents_that_trickle_in_are_found_with_the_window(tmp_path, client):
    prepare(tmp_path)
    told = []
    for day in range(1, 4):
        add_day(tmp_path, day, n_unusual=2)
        told.append(tell_clusters(run_sweep(tmp_path, client)))
    assert told[0] == []
    assert next(kind for day in told for _, kind, _, _ in day) == "new"
    documents = set(read_state(str(tmp_path / "out")).clusters[0].documents)
    assert documents == {f"day{day}-unusual-{n}" for day in (1, 2, 3) for n in (0, 1)}


def test_what_is_new(tmp_path, client):
    prepare(tmp_path)
    folder = tmp_path / "repository"
    documents = make_documents("a", 20)
    (folder / "a.jsonl").write_text(make_lines(documents))
    run_sweep(tmp_path, client)
    # The same documents elsewhere are known; one that says something else is new.
    changed = {"id": "a-3", "text": make_documents("b", 1)[0]["text"]}
    (folder / "b.jsonl").write_text(make_lines([*documents[:3], changed, *documents[4:]]))
    (line,) = run_sweep(tmp_path, client).lines
    assert line.documents == 1
    # The changed document has taken the place of the old one in the window.
    assert line.tested == 20
    store = CorpusStore.open(tmp_path / "out/sweeps/0002/corpus/new.zarr")
    assert store.ids() == ["a-3"]
    # A line that was half written is taken when it is whole.
    more = make_lines(make_documents("c", 2))
    (folder / "c.jsonl").write_text(more[:-20])
    (line,) = run_sweep(tmp_path, client).lines
    assert (line.documents, line.skipped) == (1, 1)
    (folder / "c.jsonl").write_text(more)
    (line,) = run_sweep(tmp_path, client).lines
    assert (line.documents, line.skipped) == (1, 0)


class DeadError(BaseException):
    """This process is dead."""


@contextmanager
def dying_at(write=None, name=None):
    """Every file and every store arrives by a rename. From one of these on, given by its number or
    file name, none does."""
    n_writes, dead = 0, False

    def guard(move):
        def moved(self, target):
            nonlocal n_writes, dead
            n_writes += 1
            dead = dead or n_writes == write or Path(target).name == name
            # A thread of a worker would take its task along, for which Dask would wait.
            if dead and threading.current_thread() is threading.main_thread():
                raise DeadError("killed by the test")
            return move(self, target)

        return moved

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", guard(Path.replace))
        patch.setattr(Path, "rename", guard(Path.rename))
        yield


def tell_all(folder):
    """Everything that sweeps leave behind, except times."""
    told = {}
    for line in read_history(folder):
        del line["started"], line["seconds"]
        told[line["sweep"]] = line
    state = json.loads((folder / "out" / "state.json").read_text())
    del state["segments"]
    told["state"] = state
    for path in sorted((folder / "out" / "sweeps").glob("*/*")):
        if path.name in ("result.json", "clusters.csv"):
            told[str(path.relative_to(folder))] = path.read_bytes()
    return told


RETRAIN = "sweep.retrain.age=2"
UNUSUAL = [0, 5, 5]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, client):
    folder = prepare(tmp_path_factory.mktemp("undisturbed"))
    told = []
    for day, n_unusual in enumerate(UNUSUAL, 1):
        add_day(folder, day, n_unusual=n_unusual)
        told.append(tell_clusters(run_sweep(folder, client, RETRAIN, "sweep.window=1")))
    assert told == [[], [(1, "new", 5, 5)], [(1, "continuing", 5, 10)]]
    return tell_all(folder), told


def test_retraining(undisturbed):
    told, _ = undisturbed
    assert [told[sweep]["trained"] for sweep in range(1, 4)] == [
        "the first one",
        None,
        "it has been used for 2 sweeps",
    ]
    assert told["state"]["model"]["generation"] == 2
    assert told["state"]["model"]["documents"] == 200


def test_a_sweep_that_dies_again_and_again(tmp_path, client, undisturbed):
    """A little later each time: the outcome is the same, byte for byte, and reported once."""
    expected, expected_news = undisturbed
    prepare(tmp_path)
    news, n_deaths = [], 0
    for day, n_unusual in enumerate(UNUSUAL, 1):
        add_day(tmp_path, day, n_unusual=n_unusual)
        for write in range(1, 100, 5):
            try:
                with dying_at(write):
                    outcome = run_sweep(tmp_path, client, RETRAIN, "sweep.window=1")
                break
            except DeadError:
                n_deaths += 1
        news.append(tell_clusters(outcome))
    assert n_deaths > 6
    assert tell_all(tmp_path) == expected
    assert news == expected_news


def test_a_sweep_that_was_cut_off_is_finished_and_newer_documents_follow(tmp_path, client):
    prepare(tmp_path)
    add_day(tmp_path, 1)
    with dying_at(name="result.json"), pytest.raises(DeadError, match="killed by the test"):
        run_sweep(tmp_path, client)
    assert (tmp_path / "out/sweeps/0001/plan.json").exists()
    assert read_state(str(tmp_path / "out")).sweep == 0
    add_day(tmp_path, 2)
    outcome = run_sweep(tmp_path, client)
    assert [(line.sweep, line.documents) for line in outcome.lines] == [(1, 30), (2, 30)]


class Hook(Silent, BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.heard.append(json.loads(body))
        self.send_response(self.server.answers.pop(0) if self.server.answers else 200)
        self.end_headers()


@pytest.fixture
def hook():
    with serve(Hook, heard=[], answers=[]) as server:
        yield server


def test_alerts_arrive_at_least_once(tmp_path, client, hook, monkeypatch, capsys):
    monkeypatch.setattr(alerts, "FIRST_PAUSE", 0.01)
    monkeypatch.setenv("HOOK", f"http://127.0.0.1:{hook.server_port}/token-hunter2")
    prepare(tmp_path)
    heard = tmp_path / "heard"
    program = f"import sys, os; open({str(heard)!r}, 'a').write(sys.stdin.read())"
    settings = [
        "sweep.alert.webhook=$HOOK",
        f"sweep.alert.command={json.dumps([sys.executable, '-c', program])}",
        "sweep.alert.tries=2",
    ]
    add_day(tmp_path, 1)
    assert run_sweep(tmp_path, client, *settings).alerts == ()
    add_day(tmp_path, 2, n_unusual=6)
    hook.answers = [500, 503]
    outcome = run_sweep(tmp_path, client, *settings)
    assert len(outcome.alerts) == 1
    (problem,) = outcome.undelivered
    assert problem.endswith("could not be delivered: the webhook answered with status 503")
    assert len(hook.heard) == 2
    assert json.loads(heard.read_text())["clusters"][0]["kind"] == "new"
    # The next sweep has nothing new but the alert that waits, for the webhook alone.
    outcome = run_sweep(tmp_path, NoCluster(), *settings)
    assert (outcome.alerts, outcome.undelivered) == ((), ())
    assert len(hook.heard) == 3
    assert hook.heard[2] == json.loads(heard.read_text())
    assert hook.heard[2]["sweep"] == 2
    run_sweep(tmp_path, NoCluster(), *settings)
    assert len(hook.heard) == 3
    # Where alerts go is nobody's business.
    for path in (tmp_path / "out").rglob("*.*"):
        if path.suffix in (".json", ".jsonl", ".html"):
            assert "hunter2" not in path.read_text()
            assert "heard" not in path.read_text()
    assert "hunter2" not in capsys.readouterr().err


def test_a_command_that_fails_is_told(monkeypatch):
    monkeypatch.setattr(alerts, "FIRST_PAUSE", 0.01)
    fails = AlertConfig(command=(sys.executable, "-c", "import sys; sys.exit('no such door')"))
    told = "the command ended with status 1"
    assert alerts.deliver(fails, "command", b"{}") == told
    nowhere = AlertConfig(command=("/no/such/program", "hunter2"), tries=1)
    told = "the command could not be started: No such file or directory"
    assert alerts.deliver(nowhere, "command", b"{}") == told
    closed = AlertConfig(webhook="http://127.0.0.1:9/hunter2", tries=1)
    told = alerts.deliver(closed, "webhook", b"{}")
    assert told.startswith("the webhook cannot be reached: ")
    assert "hunter2" not in told
    unset = AlertConfig(webhook="$NO_SUCH_VARIABLE", tries=1)
    told = "the webhook's address must be an http or https URL"
    assert alerts.deliver(unset, "webhook", b"{}") == told


def test_the_caller_hears_of_an_alarm_that_the_last_sweep_could_not_tell(tmp_path, client):
    prepare(tmp_path)
    add_day(tmp_path, 1, n_unusual=6)
    run_sweep(tmp_path, client)
    path = tmp_path / "out" / "state.json"
    state = json.loads(path.read_text())
    del state["sha256"]  # as an earlier version wrote it
    path.write_text(json.dumps(state | {"pending": {"1": ["caller"]}}, indent=1))
    assert [alert.sweep for alert in run_sweep(tmp_path, NoCluster()).alerts] == [1]
    assert run_sweep(tmp_path, NoCluster()).alerts == ()


def test_workers_that_cannot_hold_the_documents(tmp_path, client, monkeypatch):
    prepare(tmp_path)
    add_day(tmp_path, 1)
    name = "atd_dask.sweeps.sweep_detection.estimate_memory"
    monkeypatch.setattr(name, lambda *given: (2**50, "it"))
    with pytest.raises(SchedulerError, match=r"take about 1,048,576\.0 GiB"):
        run_sweep(tmp_path, client)
    monkeypatch.undo()
    (line,) = run_sweep(tmp_path, client).lines
    assert line.documents == 30


def test_mistakes_are_one_sentence(tmp_path, client):
    prepare(tmp_path)
    add_day(tmp_path, 1)
    run_sweep(tmp_path, client)
    with pytest.raises(InputError, match=r"were started with another corpus.text, .*: set it back"):
        run_sweep(tmp_path, client, "corpus.text.min_letters=2")
    with pytest.raises(ConfigError, match=r"must be .* or zarr for sweeps, got synthetic"):
        run_sweep(tmp_path, client, "corpus.test={format: synthetic}")
    (tmp_path / "conf.yaml").write_text(
        "corpus: {train: {format: jsonl, path: normal.jsonl}, test: {format: synthetic}}"
    )
    with pytest.raises(InputError, match=r"must be .* or zarr for sweeps, got synthetic"):
        run_sweep(tmp_path, client)
    (tmp_path / "conf.yaml").write_text(
        "corpus: {train: {format: jsonl, path: normal.jsonl},"
        " test: {format: jsonl, path: repository}}"
    )
    with pytest.raises(InputError, match=r"repeats must be 1 for sweeps, which keep .*, got 2"):
        run_sweep(tmp_path, client, "detection.repeats=2")
    (tmp_path / "conf.yaml").write_text("corpus: {dataset: synthetic}")
    with pytest.raises(InputError, match=r"needs corpus\.train, .* got corpus\.dataset: synthetic"):
        run_sweep(tmp_path, client)
    state = tmp_path / "out" / "state.json"
    state.write_text("{}")
    (tmp_path / "conf.yaml").write_text(
        "corpus: {train: {format: jsonl, path: normal.jsonl},"
        " test: {format: jsonl, path: repository}}"
    )
    with pytest.raises(DamagedStoreError, match=r"state\.json is not as it was written"):
        run_sweep(tmp_path, client)


def make_state(sweep, drifts, since=1):
    model = ModelNote(
        generation=1,
        since=since,
        reason="the first one",
        documents=200,
        n_topics=2,
        unseen_share=0.01,
        log_likelihood=-5.0,
    )
    drift = tuple(
        Drift(
            sweep=n, generation=1, tokens=100 - unseen, unseen_tokens=unseen, log_likelihood=value
        )
        for n, (unseen, value) in enumerate(drifts, since)
    )
    return SweepState(key="", sweep=sweep, model=model, drift=drift)


@pytest.mark.parametrize(
    ("sweep", "drifts", "reason"),
    [
        (13, [(1, -5.0)] * 13, None),
        (14, [(1, -5.0)] * 14, "it has been used for 14 sweeps"),
        (3, [(6, -5.0)] * 3, None),
        (3, [(7, -5.0)] * 3, "7.0% of the words of new documents are not in the vocabulary, "),
        (4, [(90, -5.0), (1, -5.0), (1, -5.0), (1, -5.0)], None),
        (3, [(1, -5.09)] * 3, None),
        (3, [(1, -5.11)] * 3, "the log-likelihood per word of new documents is -5.110, against "),
        (3, [(1, None)] * 3, None),
        # Documents that came under this model are all still being tested.
        (2, [(90, -9.0)] * 2, None),
    ],
)
def test_when_the_null_model_is_trained_anew(sweep, drifts, reason):
    found = retraining.find_reason(SweepConfig(window=2), make_state(sweep, drifts))
    assert (found or "none").startswith(reason or "none")


def test_the_latest_normal_documents_are_chosen():
    ids = [["a", "b", "c"], ["d", "b", "e"], ["f", "g"]]
    keep = retraining.choose_latest(ids, {"e", "g"}, 4)
    chosen = [
        [id for id, kept in zip(some, mask, strict=True) if kept]
        for some, mask in zip(ids, keep, strict=True)
    ]
    assert chosen == [["c"], ["d", "b"], ["f"]]


def test_a_file_that_was_read_in_vain_is_not_read_again(tmp_path, client, monkeypatch):
    prepare(tmp_path)
    add_day(tmp_path, 1)
    run_sweep(tmp_path, client)
    again = tmp_path / "repository" / "again.jsonl"
    again.write_text((tmp_path / "repository" / "1.jsonl").read_text())
    age(again)
    assert run_sweep(tmp_path, NoCluster()).lines == ()
    monkeypatch.setattr("atd_dask.text.readers.jsonl.open_file", None)
    assert run_sweep(tmp_path, NoCluster()).lines == ()
