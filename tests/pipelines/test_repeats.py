"""Detection that is repeated with other null models: what it writes, reuses and resumes."""

from __future__ import annotations

import csv
import json
import shutil

import pytest

from atd_dask.cli.outputs import make_progress
from atd_dask.pipelines import detect as detection
from atd_dask.pipelines.report import write_report
from atd_dask.pipelines.train import train
from atd_dask.stages.score_file import read_scores
from atd_dask.storage.verification import find_stores, verify
from tests.clusters import local_client
from tests.pipelines.test_detect import make_config, train_run

REPEATS = "detection.repeats=3"


@pytest.fixture(scope="module")
def client():
    with local_client(2, processes=False) as made:
        yield made


@pytest.fixture(scope="module")
def trained(tmp_path_factory, client):
    return train_run(tmp_path_factory.mktemp("run"), client)


def detect(config, client, **options):
    result = detection.detect_repeatedly(config, client, make_progress(quiet=True), **options)
    return result.to_json()


@pytest.fixture(scope="module")
def folder(trained, client, tmp_path_factory):
    """An undisturbed run with three repeats."""
    folder = tmp_path_factory.mktemp("repeated") / "run"
    shutil.copytree(trained, folder)
    detect(make_config(folder, REPEATS), client)
    return folder


@pytest.fixture(scope="module")
def alone(trained, client, tmp_path_factory):
    """The same run without repeats."""
    folder = tmp_path_factory.mktemp("alone") / "run"
    shutil.copytree(trained, folder)
    detect(make_config(folder), client)
    return folder


def read(folder, name="result.json"):
    return json.loads((folder / "out" / name).read_bytes())


def test_what_is_found_comes_back(folder):
    result = read(folder)
    first, second, *others = result["clusters"]
    for cluster in (first, second):
        assert cluster["significant"]
        told = cluster["repeats"]
        assert (told["found"], told["of"], told["shown"]) == (3, 3, 1)
        assert told["p_value"] == 1.5 * sorted(told["p_values"])[1] <= 0.01
    assert not any(cluster["significant"] for cluster in others)
    assert [model["seed"] for model in result["repeats"]["null_models"]] == [1, 2, 3]
    assert len({model["bic"] for model in result["repeats"]["null_models"]}) > 1
    assert result["evaluation"]["group"]["f1"] > 0.9
    with (folder / "out/clusters.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["repeats"] for row in rows if row["significant"] == "True"} == {"3"}
    scores = read_scores(str(folder / "out"))  # those of the result over all repeats
    assert {number for number in scores.nearest if number is not None} == {1, 2}


def test_the_first_repeat_is_the_run_alone(alone, folder):
    content = (alone / "out/result.json").read_bytes()
    assert (folder / "out/repeats/1/result.json").read_bytes() == content
    assert b"repeats" not in content
    assert "repeats" not in (alone / "out/clusters.csv").read_text().splitlines()[0]
    assert not (alone / "out/repeats").exists()


def test_a_repeat_is_what_its_seed_gives_alone(trained, folder, client, tmp_path):
    shutil.copytree(trained, tmp_path / "run")
    config = make_config(tmp_path / "run", "seed=2")
    train(config, client, make_progress(quiet=True))
    detect(config, client)
    alone = (tmp_path / "run/out/result.json").read_bytes()
    assert (folder / "out/repeats/2/result.json").read_bytes() == alone


@pytest.mark.parametrize("kept", [1, 2])
def test_repeats_that_are_finished_are_reused(trained, folder, client, tmp_path, kept, monkeypatch):
    """Stopped after a repeat, and resumed with other workers: the same bytes."""
    shutil.copytree(trained, tmp_path / "run")
    config = make_config(tmp_path / "run", REPEATS)
    find, calls = detection.detect_clusters, []

    def stop(*arguments):
        calls.append(arguments)
        if len(calls) > kept:
            raise KeyboardInterrupt("stopped by the test")
        return find(*arguments)

    monkeypatch.setattr(detection, "detect_clusters", stop)
    with pytest.raises(KeyboardInterrupt, match="stopped by the test"):
        detect(config, client)
    assert not (tmp_path / "run/out/result.json").exists()
    calls.clear()
    monkeypatch.setattr(detection, "detect_clusters", lambda *a: calls.append(a) or find(*a))
    with local_client(1, processes=False) as other:
        detect(config, other)
    assert len(calls) == 3 - kept
    for name in ("result.json", "clusters.csv", "repeats/3/result.json"):
        mine = (tmp_path / "run/out" / name).read_bytes()
        assert mine == (folder / "out" / name).read_bytes()


def test_nothing_is_made_twice(folder, client, tmp_path, monkeypatch):
    """More repeats or fewer: finished ones are reused, and one alone is the run itself."""
    shutil.copytree(folder, tmp_path / "run")
    folder = tmp_path / "run"
    monkeypatch.setattr(detection, "detect_clusters", None)
    result = read(folder)
    for overrides, n in (([REPEATS], 3), (["detection.repeats=2"], 2), ([], None), ([REPEATS], 3)):
        again = detect(make_config(folder, *overrides), client)
        assert again.get("repeats", {}).get("n") == n
        assert again == read(folder)
    assert again == result
    for overrides in ([REPEATS, "seed=2"], ["detection.repeats=4"]):
        with pytest.raises(TypeError, match="not callable"):
            detect(make_config(folder, *overrides), client)
    with pytest.raises(TypeError, match="not callable"):
        detect(make_config(folder, REPEATS), client, fresh=True)


def test_a_run_that_was_made_alone_is_the_first_repeat(alone, client, tmp_path, monkeypatch):
    shutil.copytree(alone, tmp_path / "run")
    find, calls = detection.detect_clusters, []
    monkeypatch.setattr(detection, "detect_clusters", lambda *a: calls.append(a) or find(*a))
    detect(make_config(tmp_path / "run", "detection.repeats=2"), client)
    assert len(calls) == 1


def test_the_stores_of_repeats_are_verified_and_the_page_tells_of_them(folder):
    stores = find_stores(folder / "out")
    for repeat in (2, 3):
        path = str(folder / f"out/repeats/{repeat}/null_model.zarr")
        assert path in stores
        assert verify(path) == []
    write_report(str(folder / "out"))
    assert "Found in 3 of 3 repeats" in (folder / "out/report.html").read_text()
