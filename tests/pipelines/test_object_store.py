"""A run and sweeps with documents, stores, checkpoints, state and results behind a real S3
endpoint. Credentials are only in the environment."""

from __future__ import annotations

import json

import pytest

from atd_dask.cli.outputs import make_progress
from atd_dask.config.loader import load
from atd_dask.pipelines.run import run
from atd_dask.pipelines.sweep import sweep
from atd_dask.storage.verification import verify
from tests.clusters import local_client
from tests.pipelines.sweeping import CONFIG, make_documents, make_lines
from tests.s3 import SECRET, serve_s3

pytest.importorskip("s3fs", reason="needs the extra s3")

HOME = "s3://bucket/home"
FOUND = {"result.json", "clusters.csv", "report.html", "run.json"}


@pytest.fixture(scope="module")
def s3():
    with serve_s3() as filesystem:
        yield filesystem


@pytest.fixture(scope="module")
def client(s3):
    with local_client(1) as made:
        yield made


def put(s3, name, documents):
    s3.pipe_file(f"{HOME}/{name}", make_lines(documents).encode())


def configure(folder, output):
    text = CONFIG.replace("path: normal", f"path: {HOME}/normal")
    path = folder / "conf.yaml"
    path.write_text(text.replace("path: repository", f"path: {HOME}/repository"))
    quick = ["detection.significance.searches=1", "detection.seeds=2"]
    return load(path, [f"output={HOME}/{output}", *quick])


def list_names(s3, folder):
    return {path.rpartition("/")[2] for path in s3.ls(f"{HOME}/{folder}", detail=False)}


def assert_no_secret(s3, heard):
    for path in s3.find(HOME):
        assert SECRET.encode() not in s3.cat_file(path), path
    assert SECRET not in heard


def test_a_run_and_sweeps(s3, client, tmp_path, caplog, capsys):
    put(s3, "normal.jsonl", make_documents("normal", 100))
    put(s3, "repository/1.jsonl", make_documents("day1", 30, 6))
    progress = make_progress()

    made = run(configure(tmp_path, "run"), client, progress)
    assert made.result.clusters[0].significant
    assert list_names(s3, "run") >= FOUND
    assert "checkpoints" not in list_names(s3, "run"), "they are removed when they have served"
    for name in ("corpus/train.zarr", "corpus/test.zarr", "null_model.zarr"):
        assert verify(f"{HOME}/run/{name}") == []

    config = configure(tmp_path, "sweeps")
    outcome = sweep(config, client, progress)
    (cluster,) = outcome.alerts[0].clusters
    assert (cluster.kind, cluster.size) == ("new", 6)
    put(s3, "repository/2.jsonl", make_documents("day2", 30, 6))
    outcome = sweep(config, client, progress)
    (cluster,) = outcome.alerts[0].clusters
    assert (cluster.kind, cluster.size) == ("continuing", 12)
    assert sweep(config, client, progress).lines == ()
    assert list_names(s3, "sweeps") >= {"state.json", "history.jsonl", "index.html", "journal"}
    assert list_names(s3, "sweeps/sweeps/0002") >= FOUND
    lines = s3.cat_file(f"{HOME}/sweeps/history.jsonl").splitlines()
    assert [json.loads(line)["documents"] for line in lines] == [36, 36]
    assert_no_secret(s3, caplog.text + "".join(capsys.readouterr()))
