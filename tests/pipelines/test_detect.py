"""The stage that finds clusters: what it writes, reuses and resumes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from atd_dask.cli.outputs import make_progress
from atd_dask.config.loader import load
from atd_dask.evaluation.results import FORMAT
from atd_dask.findings import Findings
from atd_dask.pipelines import detect as stage
from atd_dask.pipelines.ingest import ingest
from atd_dask.pipelines.report import write_report
from atd_dask.pipelines.train import train
from atd_dask.result_types import NormalDocument
from atd_dask.stages.result_making import name_normal_documents
from atd_dask.stages.score_file import read_scores
from atd_dask.storage.corpus import CorpusStore
from tests.clusters import local_client
from tests.shared import shared

SYNTHETIC = """
corpus: {dataset: synthetic}
null_model: {topics: 10}
detection:
  seeds: 10
  membership: {replicates: 200}
  significance: {replicates: 200, searches: 3}
evaluation: {anomalous: ["10", "11"]}
"""


@pytest.fixture(scope="module")
def client():
    with local_client(2, processes=False) as made:
        yield made


@pytest.fixture(scope="module")
def folder(tmp_path_factory, client):
    return train_run(tmp_path_factory.mktemp("run"), client)


def train_run(folder, client):
    """A trained run."""
    (folder / "conf.yaml").write_text(SYNTHETIC)
    config = make_config(folder)
    for before in (ingest, train):
        before(config, client, make_progress(quiet=True))
    return folder


def make_config(folder, *overrides):
    return load(folder / "conf.yaml", [f"output={folder / 'out'}", *overrides])


def detect(config, client, **options):
    return stage.detect(config, client, make_progress(quiet=True), **options).to_json()


@pytest.fixture(scope="module")
def result(folder, client):
    return detect(make_config(folder), client)


def test_two_clusters_and_then_what_failed(result):
    assert result["format"] == FORMAT
    failed = [cluster["support"] for cluster in result["clusters"][2:]]
    assert [cluster["significant"] for cluster in result["clusters"]] == [
        *(True, True),
        *[False] * len(failed),
    ]
    assert failed == sorted(failed, reverse=True)
    assert result["evaluation"]["group"]["f1"] > 0.9
    labels = {cluster["evaluation"]["label"] for cluster in result["clusters"][:2]}
    assert len(labels) == 2
    for cluster in result["clusters"]:
        assert cluster["size"] == len(cluster["documents"])
        assert cluster["replicates"] == len(cluster["bootstrap_scores"])
    for cluster in result["clusters"][:2]:
        assert cluster["search_p_value"] <= 0.01
        assert len(cluster["reference_support"]) == 3
        assert cluster["support"] > max(0, *cluster["reference_support"])
        assert cluster["growth"] == []


def test_what_the_held_out_searches_found(folder, result):
    assert [search["support"] for search in result["references"]] == (
        result["clusters"][0]["reference_support"]
    )
    name_row = name_normal_documents(
        {
            part: CorpusStore.open(folder / f"out/corpus/{part}.zarr")
            for part in ("train", "validation")
        }
    )
    assert name_row(2999) == NormalDocument(part="train", row=2999, id="train-2999")
    assert name_row(3001) == NormalDocument(part="validation", row=1, id="validation-0001")


def test_what_is_written(folder, result):
    assert json.loads((folder / "out/result.json").read_bytes()) == result
    with (folder / "out/clusters.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(cluster["size"] for cluster in result["clusters"])
    assert not list((folder / "out/checkpoints/detect").glob("*"))


def test_the_scores_of_all_documents_are_kept(folder, result):
    output = str(folder / "out")
    scores = read_scores(output)
    assert scores.row == tuple(range(2060))
    found = Findings.load(output)._scores  # the batch has no copies
    np.testing.assert_allclose(scores.surprise, found.surprise, atol=6e-5)
    np.testing.assert_allclose(scores.log_odds, found.log_odds, atol=6e-5)
    assert scores.nearest == tuple(number + 1 for number in found.nearest.tolist())
    assert len(scores.usual) == 3
    assert "All documents of the batch" in Path(write_report(output)).read_text()


def test_scores_of_another_result_are_not_shown(folder, result):
    output = folder / "out"
    before = (output / "scores.json").read_bytes()
    told = json.loads(before)
    for content in (None, b"{", b"[]", json.dumps(told | {"result": "another"}).encode()):
        (output / "scores.json").unlink(missing_ok=True)
        if content is not None:
            (output / "scores.json").write_bytes(content)
        assert read_scores(str(output)) is None
        assert "All documents of" not in Path(write_report(str(output))).read_text()
    (output / "scores.json").write_bytes(before)


def test_a_result_of_the_same_inputs_is_reused(folder, client, result, monkeypatch):
    monkeypatch.setattr(stage, "detect_clusters", None)
    assert detect(make_config(folder), client) == result
    with pytest.raises(TypeError, match="'NoneType' object is not callable"):
        detect(make_config(folder, "detection.seeds=9"), client)
    with pytest.raises(TypeError, match="'NoneType' object is not callable"):
        detect(make_config(folder), client, fresh=True)


def test_a_fresh_detection_gives_the_same_bytes(folder, client, result):
    before = (folder / "out/result.json").read_bytes()
    scores = (folder / "out/scores.json").read_bytes()
    assert detect(make_config(folder), client, fresh=True) == result
    assert (folder / "out/result.json").read_bytes() == before
    assert (folder / "out/scores.json").read_bytes() == scores


def test_the_ground_truth_of_the_synthetic_corpus(tmp_path, client):
    """Both clusters are complete, and their planted words are found."""
    place = shared("corpora/synthetic")
    truth = json.loads((place / "salient_words_ground_truth.json").read_text())
    sources = "\n".join(
        f"  {part}: {{format: ldac, path: {place}/{part}.ldac.gz, labels: {place}/{part}.labels}}"
        for part in ("train", "validation", "test")
    )
    (tmp_path / "conf.yaml").write_text(
        f"corpus:\n{sources}\nnull_model: {{topics: {{max: 15, min: 8}}, restarts: 3}}\n"
        "detection: {significance: {replicates: 200, searches: 3}}\n"
        "evaluation: {anomalous: ['10', '11']}\n"
    )
    config = make_config(tmp_path)
    for before in (ingest, train):
        before(config, client, make_progress(quiet=True))
    result = detect(config, client)
    assert result["null_model"]["n_topics"] == 10
    assert sum(cluster["significant"] for cluster in result["clusters"]) == 2
    for cluster in result["clusters"][:2]:
        assert cluster["evaluation"]["recall"] == 1.0
        ranks = rank_words(
            cluster, truth["topics"][cluster["evaluation"]["label"]]["salient_words"]
        )
        assert len(ranks) >= 23
        assert sorted(ranks)[len(ranks) // 2] <= 15


def rank_words(cluster, truth):
    """The ranks, from 0, of the true words among the occurring salient ones, by probability."""
    words = [word["word"] for word in cluster["salient_words"] if word["occurring"]]
    return [words.index(str(word)) for word in truth if str(word) in words]
