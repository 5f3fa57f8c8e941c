"""Keys that have been renamed, the output, and values that are not shown."""

from __future__ import annotations

import pytest

from atd_dask.config.loader import load, make_detection
from atd_dask.errors import ConfigError

CONFIG = "corpus: {dataset: synthetic}\ndetection: {seeds: 3}\n"


@pytest.fixture
def conf(tmp_path):
    path = tmp_path / "conf.yaml"
    path.write_text(CONFIG)
    return path


def test_a_former_name_is_read_with_a_warning(conf):
    told = []
    config = load(conf, ["detection.mothers=4"], told.append)
    assert (config.detection.donors, config.detection.seeds) == (4, 3)
    assert told == ["detection.mothers is now called detection.donors (--set detection.mothers=4)"]
    conf.write_text(CONFIG.replace("seeds", "mothers"))
    with pytest.warns(FutureWarning, match=r"mothers is now called detection\.donors \(.*line 2\)"):
        assert load(conf).detection.donors == 3


@pytest.mark.parametrize(
    ("given", "output"),
    [
        ("~/results", "/home/me/results"),
        ("results/~", "results/~"),
        ("~nobody-of-this-name/results", "~nobody-of-this-name/results"),
        ("s3://bucket/results", "s3://bucket/results"),
    ],
)
def test_the_output_may_be_in_the_home_folder(conf, monkeypatch, given, output):
    monkeypatch.setenv("HOME", "/home/me")
    assert load(conf, [f"output={given}"]).output == output


def test_a_former_name_in_python():
    with pytest.warns(FutureWarning, match=r"detection\.mothers is now called detection\.donors"):
        assert make_detection({"mothers": 2}).donors == 2


def test_both_names_are_one_too_many(conf):
    told = []
    with pytest.raises(ConfigError, match=r"mothers may not be set with detection\.donors"):
        load(conf, ["detection.mothers=4", "detection.donors=4"], told.append)
    assert told == []


@pytest.mark.parametrize(
    "assignment",
    [
        "sweep.alert.webhok=https://hooks.example.org/hunter2",
        "sweep.webhook=https://hooks.example.org/hunter2",
        "sweep.alert=https://hooks.example.org/hunter2",
        "sweep={alert: {command: hunter2}}",
        "sweep.alert.command=hunter2",
        "cluster.kwargs=hunter2",
        "cluster.kwarg={password: hunter2}",
    ],
)
def test_a_mistake_in_a_section_with_secrets_does_not_show_them(tmp_path, assignment):
    (tmp_path / "conf.yaml").write_text("name: x\ncorpus: {dataset: synthetic}\n")
    with pytest.raises(ConfigError, match=r"known key|not shown") as caught:
        load(tmp_path / "conf.yaml", [assignment])
    assert "hunter2" not in str(caught.value)
    (tmp_path / "file.yaml").write_text("sweep: {alert: {webhok: https://x.org/hunter2}}\n")
    with pytest.raises(ConfigError, match=r"sweep\.alert\.webhok is not a known key") as caught:
        load(tmp_path / "file.yaml", [])
    assert "hunter2" not in str(caught.value)
