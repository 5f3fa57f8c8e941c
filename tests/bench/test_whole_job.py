from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from atd_dask.bench import whole_job
from atd_dask.bench.usage import measure
from atd_dask.bench.whole_job import spell_out
from atd_dask.cli.command import atd
from atd_dask.config import paper_corpora
from atd_dask.config.loader import load
from atd_dask.config.run_config import TopicsConfig
from tests.bench.test_training_quality import write_corpus


@pytest.mark.parametrize("name", ["reuters", "synthetic", "newsgroups"])
def test_a_configuration_that_is_spelt_out_says_the_same(name, tmp_path):
    config = paper_corpora.paper_config(name, None, str(tmp_path / "output"))
    path = tmp_path / f"{name}.yaml"
    path.write_text(json.dumps(spell_out(config)))
    assert load(path) == config


def test_the_work_of_children_that_have_ended_counts():
    work = "import time\nwhile time.process_time() < 0.6: pass"
    with measure() as usage:
        subprocess.run([sys.executable, "-c", work], check=True)
    assert 0.5 <= usage.cpu_seconds < 5  # the system counts in hundredths, and rounds down
    assert usage.own_cpu_seconds >= 0


def invoke(folder, monkeypatch):
    monkeypatch.setitem(paper_corpora.TOPICS, "reuters", TopicsConfig(max=3, min=2))
    monkeypatch.setitem(paper_corpora.ANOMALOUS, "reuters", ("x",))
    write_corpus(folder)
    return CliRunner().invoke(atd, ["bench", "job", "--corpora", str(folder)])


def test_a_job_that_fails_is_told(tmp_path, monkeypatch):
    failing = (sys.executable, "-c", "import sys; sys.exit('no room')")
    monkeypatch.setattr(whole_job, "COMMAND", failing)
    result = invoke(tmp_path, monkeypatch)
    assert result.exit_code == 1
    assert "the job failed: no room" in result.stderr


@pytest.mark.long
def test_the_command(tmp_path, monkeypatch):
    result = invoke(tmp_path, monkeypatch)
    assert result.exit_code == 0, result.stderr
    header, _, compiled = result.stdout.rstrip("\n").split("\n")
    assert header.split()[-4:] == ["ingest", "train", "detect", "report"]
    assert compiled.startswith("compiled ")
