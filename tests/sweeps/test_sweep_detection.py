"""A sweep whose documents cannot be tested does not stop all later sweeps."""

from __future__ import annotations

import json

import pytest

from atd_dask.cli.outputs import make_progress
from atd_dask.config.loader import load
from atd_dask.pipelines.sweep import sweep
from tests.clusters import local_client
from tests.pipelines.sweeping import add_day, prepare, read_history


@pytest.fixture(scope="module")
def client():
    with local_client(1, processes=False) as made:
        yield made


def test_a_batch_that_is_too_large_for_its_null_model(tmp_path, client, capsys):
    folder = prepare(tmp_path)
    given = [f"output={folder / 'out'}", "sweep.window=0"]
    config = load(folder / "conf.yaml", given)
    add_day(folder, 1, n_docs=120)
    sweep(config, client, make_progress(), ["atd-dask", "sweep"])
    told = capsys.readouterr().err
    assert "not searching for clusters in this sweep: there must be at least twice as many" in told
    (line,) = read_history(folder)
    assert (line["tested"], line["clusters"], line["candidates"]) == (120, [], [])
    result = json.loads((folder / "out/sweeps/0001/result.json").read_bytes())
    assert result["clusters"] == []
    assert (folder / "out/sweeps/0001/report.html").exists()

    add_day(folder, 2, n_docs=30, n_unusual=12)
    sweep(config, client, make_progress(), ["atd-dask", "sweep"])
    assert "not searching for clusters" not in capsys.readouterr().err
    *_, line = read_history(folder)
    assert line["sweep"] == 2
    (cluster,) = line["clusters"]
    assert (cluster["kind"], cluster["size"]) == ("new", 12)
    first = line["candidates"][0]
    assert first["significant"]
    assert first["support"] > 0
    assert first["search_p_value"] <= 0.01
