"""dask-jobqueue with the configuration in deploy/slurm. The commands of Slurm are fakes: `sbatch`
runs a script at once, as a process group whose number is the job's, and `scancel` kills it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import dask
import pytest
import yaml

from atd_dask.config.loader import load
from atd_dask.distribution.engine import clients
from atd_dask.distribution.engine.clients import connect
from tests.deploy.commands import check_worker, parse

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "slurm"
with clients.keep_handlers():
    dask_jobqueue = pytest.importorskip("dask_jobqueue", reason="needs the extra slurm")

FAKES = {
    "sbatch": """
setsid bash -c "$(cat "$1")" >/dev/null 2>&1 &
echo "$!" >> "$(dirname "$0")/jobs"
echo "Submitted batch job $!"
""",
    "scancel": """
echo "$1" >> "$(dirname "$0")/cancelled"
kill -KILL -- "-$1" 2>/dev/null
exit 0
""",
}


def read_section(folder: Path) -> dict[str, Any]:
    """The section `cluster`, for this machine."""
    section: dict[str, Any] = yaml.safe_load((FOLDER / "cluster.yaml").read_text())
    kwargs = section["kwargs"]
    kwargs |= {"interface": "lo", "memory": "1GiB", "log_directory": str(folder / "logs")}
    kwargs["local_directory"] = str(folder)
    kwargs["scheduler_options"]["dashboard_address"] = "127.0.0.1:0"
    arguments = kwargs["worker_extra_args"]
    kwargs["worker_extra_args"] = [each.replace("=:8788", "=127.0.0.1:0") for each in arguments]
    return section


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, script in FAKES.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{script}")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path / "jobs"


def test_the_script_of_a_worker(tmp_path: Path) -> None:
    kwargs = read_section(tmp_path)["kwargs"]
    given = yaml.safe_load((FOLDER / "cluster.yaml").read_text())["kwargs"]
    kwargs["worker_extra_args"] = given["worker_extra_args"]
    with dask_jobqueue.SLURMCluster(**kwargs) as cluster:
        lines = cluster.job_script().splitlines()
    assert "#SBATCH -t 04:00:00" in lines
    assert "#SBATCH --cpus-per-task=1" in lines
    assert not any(line.startswith(("#SBATCH -p", "#SBATCH -A")) for line in lines)
    _, _, module, *arguments = shlex.split(lines[-1])
    assert module == "distributed.cli.dask_worker"
    check_worker(["dask", "worker", *arguments])
    options = parse(["dask", "worker", *arguments])
    hours, minutes, _ = map(int, given["walltime"].split(":"))
    lifetime, stagger = (
        dask.utils.parse_timedelta(options[name]) for name in ("lifetime", "lifetime_stagger")
    )
    assert lifetime + stagger < 3600 * hours + 60 * minutes, "it ends before Slurm ends it"


def test_a_job_that_is_lost_is_replaced(
    fakes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = read_section(tmp_path)
    section["adapt"] = {"minimum": 1, "maximum": 1}
    (tmp_path / "c.yaml").write_text("corpus: {dataset: synthetic}\n")
    config = load(str(tmp_path / "c.yaml"), [f"cluster={json.dumps(section)}"])
    monkeypatch.setattr(clients, "SECONDS_BETWEEN_CHECKS", 0.2)
    try:
        with (
            dask.config.set({"distributed.deploy.lost-worker-timeout": "100ms"}),
            connect(config.cluster) as client,
        ):
            assert client.submit(sum, [1, 2], pure=False).result(timeout=240) == 3
            (job,) = map(int, fakes.read_text().split())
            os.killpg(job, signal.SIGKILL)
            client.wait_for_workers(1, timeout=240)
            assert client.submit(sum, [1, 3], pure=False).result(timeout=240) == 4
            jobs = list(map(int, fakes.read_text().split()))
            assert jobs[0] == job
            assert len(jobs) == 2
        assert str(jobs[1]) in (tmp_path / "cancelled").read_text().split()
    finally:
        for job in map(int, fakes.read_text().split()):
            with suppress(ProcessLookupError):
                os.killpg(job, signal.SIGKILL)


def test_a_sweep_as_a_job_hands_its_arguments_on(tmp_path: Path) -> None:
    program = tmp_path / "atd-dask"
    program.write_text('#!/bin/bash\nprintf "%s\\0" "$@"\n')
    program.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_SUBMIT_DIR": str(FOLDER)}
    script = ["bash", str(FOLDER / "sweep.sbatch"), "my sweep.yaml", "out"]
    done = subprocess.run(script, env=environment, capture_output=True, text=True, check=True)
    command = ["atd-dask", *done.stdout.split("\0")[:-1]]
    options = parse(command)
    assert (options["conf"], options["output"]) == ("my sweep.yaml", "out")
    (override,) = options["overrides"]
    (tmp_path / "c.yaml").write_text("corpus: {dataset: synthetic}\n")
    cluster = load(str(tmp_path / "c.yaml"), [override]).cluster
    assert cluster is not None
    assert cluster.class_ == "dask_jobqueue.SLURMCluster"
    assert cluster.adapt == {"minimum": 2, "maximum": 16}
