from __future__ import annotations

import os
import time

import pytest
from click.testing import CliRunner

from atd_dask.cli.command import atd
from atd_dask.distribution.engine import simulation
from atd_dask.errors import ClusterError


def test_the_command():
    arguments = ["--workers", "5", "--tasks", "4", "--seconds", "0.01"]
    result = CliRunner().invoke(atd, ["bench", "scheduler", *arguments])
    assert result.exit_code == 0, result.stderr
    header, row = result.stdout.splitlines()
    found = dict(zip(header.split(), row.split(), strict=True))
    assert found["workers"] == "5"
    assert found["blocks"] == "20"
    assert found["tasks"] == "46"  # two for each block, a sum on each worker, and one of these
    assert float(found["seconds"]) >= float(found["seconds_of_work"]) > 0  # the pass has ended


def test_workers_share_a_few_processes_and_nobody_waits_for_ever(monkeypatch):
    monkeypatch.setattr(simulation, "PROCESSES", 2)
    with simulation.simulate_cluster(5) as cluster:
        pids = list(cluster.client.run(os.getpid).values())
        assert sorted(pids.count(pid) for pid in set(pids)) == [2, 3]
        sleeping = cluster.client.submit(time.sleep, 60)
        with pytest.raises(ClusterError, match=r"must be done in 0\.1 s.*fewer"):
            cluster.wait(sleeping, 0.1)
