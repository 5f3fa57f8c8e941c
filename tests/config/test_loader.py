"""Keys that have been renamed."""

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


def test_a_former_name_in_python():
    with pytest.warns(FutureWarning, match=r"detection\.mothers is now called detection\.donors"):
        assert make_detection({"mothers": 2}).donors == 2


def test_both_names_are_one_too_many(conf):
    told = []
    with pytest.raises(ConfigError, match=r"mothers may not be set with detection\.donors"):
        load(conf, ["detection.mothers=4", "detection.donors=4"], told.append)
    assert told == []
