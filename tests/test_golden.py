"""The same bytes as ever, on any cluster and after an interruption."""

from __future__ import annotations

import pytest

from atd_dask.storage.checkpoints import Checkpoints
from tests.clusters import local_client
from tests.golden import CORPORA, GENERATED, configure, read_pins, run_job
from tests.shared import shared


def test_without_a_cluster(tmp_path):
    assert run_job(configure(GENERATED, tmp_path)) == read_pins()[GENERATED]


@pytest.mark.parametrize("workers", [1, 2])
def test_on_a_cluster(tmp_path, workers):
    with local_client(workers) as client:
        assert run_job(configure(GENERATED, tmp_path), client) == read_pins()[GENERATED]


class InterruptedRunError(Exception):
    pass


@pytest.mark.parametrize(("stage", "n_saved"), [("train", 3), ("detect", 6), ("detect", 9)])
def test_a_resumed_run(tmp_path, monkeypatch, stage, n_saved):
    """Interrupted after some checkpoints without a cluster; resumed on one."""
    save = Checkpoints.save
    saved = []

    def save_some(self, name, *content):
        if len(saved) == n_saved:
            raise InterruptedRunError("interrupted by the test")
        save(self, name, *content)
        saved.append(self.url)

    config = configure(GENERATED, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "save", save_some)
        with pytest.raises(InterruptedRunError, match="interrupted by the test"):
            run_job(config)
    assert saved[-1].endswith(stage)
    with local_client(2) as client:
        assert run_job(config, client) == read_pins()[GENERATED]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Sending large graph")
@pytest.mark.parametrize("name", CORPORA)
@pytest.mark.parametrize("workers", [1, 2])
def test_the_prepared_corpora(tmp_path, name, workers):
    shared(f"corpora/{name}")
    with local_client(workers) as client:
        assert run_job(configure(name, tmp_path), client) == read_pins()[name]
