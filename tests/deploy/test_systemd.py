"""The units, read and run: a scheduler and two workers that die and come back."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from distributed import Security

from atd_dask.config.cluster_options import ClusterOptions, TlsFiles
from atd_dask.distribution.engine.clients import connect
from atd_dask.errors import SchedulerError
from tests.deploy.units import Service, read_unit
from tests.pipelines import hold
from tests.pipelines.test_run import COMMAND, prepare, wait_for

UNITS = Path(__file__).resolve().parents[2] / "deploy" / "systemd"


@dataclass(frozen=True)
class Deployment:
    """The units of deploy/systemd, running in folders of this test."""

    folder: Path
    data: Path
    scheduler: Service
    workers: tuple[Service, Service]
    ports: dict[str, int]

    @property
    def address(self) -> str:
        return self.scheduler.environment["DASK_SCHEDULER_ADDRESS"]

    def fetch(self, who: str, path: str) -> str:
        url = f"http://127.0.0.1:{self.ports[who]}{path}"
        with urllib.request.urlopen(url, timeout=120) as answer:
            content: str = answer.read().decode()
        return content

    def count(self, name: str) -> float:
        """A counter, summed over all workers."""
        texts = [self.fetch(who, "/metrics") for who in ("worker 1", "worker 2")]
        lines = [line for text in texts for line in text.splitlines()]
        values = [line.split() for line in lines if line.startswith(f"atd_dask_{name}_total ")]
        assert len(values) == 2, "every worker shows it from the start"
        return sum(float(value) for _, value in values)

    def wait_for_workers(self) -> None:
        with connect(scheduler=self.address) as client:
            client.wait_for_workers(2, timeout=240)


# Each process of the tests has a range of its own, and tries no ten of them twice.
TENS = iter(range(1100 + 100 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]), 3200))


def free_ports() -> tuple[int, int, int]:
    """Unused ports: for the scheduler, its pages, and ten in a row for the workers."""
    for tens in TENS:
        try:
            for port in range(10 * tens, 10 * tens + 10):
                socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return 10 * tens + 8, 10 * tens + 9, tens
    raise AssertionError("no free ports")


def install(folder: Path) -> Path:
    """The units with the paths of this test, as an administrator would adapt them."""
    scheduler, pages, tens = free_ports()
    shutil.copytree(UNITS, folder / "units")
    places = {
        "/opt/atd-dask/bin": str(Path(sys.executable).parent),
        "/etc/atd-dask": str(folder / "units"),
        "/var/lib/atd-dask": str(folder / "data"),
        "--preload ": f"--preload {hold.__file__} --preload ",
    }
    (folder / "data").mkdir()
    for unit in (folder / "units").iterdir():
        text = unit.read_text()
        for path, here in places.items():
            text = text.replace(path, here)
        unit.write_text(text)
    environment = folder / "units" / "atd-dask.env"
    text = environment.read_text()
    for old, new in (
        ("8786", str(scheduler)),
        ("8787", str(pages)),
        ("127.0.0.1:879\n", f"127.0.0.1:{tens}\n"),
        # The kernels that the other tests compiled are good enough.
        ("ATD_DASK_CACHE=/var/cache/atd-dask\n", ""),
    ):
        assert old in text
        text = text.replace(old, new)
    environment.write_text(f"{text}\n{hold.VARIABLE}={folder / 'hold'}\n")
    return folder / "units"


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("systemd")
    units = install(folder)
    scheduler = Service(units / "atd-dask-scheduler.service")
    first, second = (Service(units / "atd-dask-worker@.service", str(n)) for n in (1, 2))
    pages = int(scheduler.environment["SCHEDULER_HTTP"].rpartition(":")[2])
    tens = int(first.environment["WORKER_HTTP"].rpartition(":")[2])
    ports = {"scheduler": pages, "worker 1": 10 * tens + 1, "worker 2": 10 * tens + 2}
    made = Deployment(folder, folder / "data", scheduler, (first, second), ports)
    services = [scheduler, first, second]
    try:
        for service in services:
            service.start()
        wait_for(lambda: is_open(scheduler.environment["SCHEDULER_PORT"]))
        made.wait_for_workers()
        yield made
    finally:
        for service in services:
            service.stop()


def is_open(port: str) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", int(port))) == 0


def test_tls(tmp_path: Path) -> None:
    """The last lines of the environment file, with a self-signed certificate."""
    pytest.importorskip("cryptography", reason="needs the extra tls")
    units = install(tmp_path)
    security = Security.temporary()
    for name, text in (
        ("ca", security.tls_ca_file),
        ("cert", security.tls_client_cert),
        ("key", security.tls_client_key),
    ):
        (units / f"{name}.pem").write_text(text)
    environment = units / "atd-dask.env"
    lines = environment.read_text().replace("tcp://", "tls://").splitlines()
    environment.write_text("\n".join(line.removeprefix("#") for line in lines if line[1:2] != " "))
    scheduler = Service(units / "atd-dask-scheduler.service")
    worker = Service(units / "atd-dask-worker@.service", "1")
    files = TlsFiles(*(str(units / f"{name}.pem") for name in ("ca", "cert", "key")))
    address = scheduler.environment["DASK_SCHEDULER_ADDRESS"]
    try:
        scheduler.start()
        worker.start()
        wait_for(lambda: is_open(scheduler.environment["SCHEDULER_PORT"]))
        with connect(ClusterOptions(address=address, security=files)) as client:
            client.wait_for_workers(1, timeout=240)
            assert next(iter(client.nthreads())).startswith("tls://")
            assert client.submit(sum, [1, 2]).result() == 3
        with (
            pytest.raises(SchedulerError, match="must answer at its address"),
            connect(ClusterOptions(address=address.replace("tls", "tcp"))),
        ):
            pytest.fail("whoever has no certificate must not get in")
    finally:
        scheduler.stop()
        worker.stop()


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_systemd_has_nothing_to_say_against_the_units(tmp_path: Path) -> None:
    units = install(tmp_path)
    names = sorted(path.name for path in units.iterdir() if path.suffix in (".service", ".timer"))
    assert len(names) == 4
    paths = [str(units / name.replace("@", "@1")) for name in names]
    for name, path in zip(names, paths, strict=True):
        if not Path(path).exists():
            (units / name).rename(path)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--generators=no", *paths],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    complaints = [line for line in done.stderr.splitlines() if str(tmp_path) in line]
    assert (done.returncode, complaints) == (0, []), done.stderr


def test_whatever_serves_is_always_started_again() -> None:
    for name in ("atd-dask-scheduler", "atd-dask-worker@"):
        unit = read_unit(UNITS / f"{name}.service")
        assert unit["Service"]["Restart"] == "always"
        assert unit["Unit"]["StartLimitIntervalSec"] == "0"
    sweep = read_unit(UNITS / "atd-dask-sweep@.service")["Service"]
    assert (sweep["Restart"], sweep["SuccessExitStatus"]) == ("on-failure", "3")


def test_health_and_metrics(deployment: Deployment) -> None:
    for who, own in (("scheduler", "dask_scheduler_workers"), ("worker 1", "dask_worker_threads")):
        assert deployment.fetch(who, "/health") == "ok"
        assert own in deployment.fetch(who, "/metrics")


def read_sweep(output: Path) -> bytes:
    (result,) = output.glob("sweeps/*/result.json")
    return result.read_bytes()


def has_checkpoint(folder: Path) -> bool:
    """Whether a training has saved anything, in a folder that others write to."""
    files = (name for _, _, names in os.walk(folder) for name in names)
    return any(name.startswith("restart-") and name.endswith(".checkpoint") for name in files)


def test_a_sweep_has_the_same_bytes_when_workers_die_and_come_back(
    deployment: Deployment, tmp_path: Path
) -> None:
    prepare(tmp_path)
    subprocess.run([*COMMAND, "sweep", "conf.yaml"], cwd=tmp_path, check=True, timeout=240)
    expected = read_sweep(tmp_path / "runs" / "job")

    configuration = (tmp_path / "conf.yaml").read_text().splitlines(keepends=True)
    job = deployment.folder / "units" / "job.yaml"
    job.write_text("".join(line for line in configuration if not line.startswith("cluster:")))
    for name in ("train.ldac", "test.ldac", "words.txt"):
        shutil.copy(tmp_path / name, job.parent)
    unit = job.parent / "atd-dask-sweep@.service"

    before = {name: deployment.count(name) for name in ("documents_scored", "replicates")}
    earlier = [len(worker.statuses) for worker in deployment.workers]
    hold.hold_after(deployment.folder / "hold", 1, "train")
    with Service(unit, "job").run(stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            output = deployment.data / "job"
            wait_for(lambda: has_checkpoint(output))
            for worker in deployment.workers:
                worker.kill()  # without those that come back, the sweep could not go on
            (deployment.folder / "hold").unlink()
            _, err = process.communicate(timeout=240)
        finally:
            process.kill()
    assert process.returncode in (0, 3), err
    assert deployment.address in err
    deployment.wait_for_workers()
    for worker, n in zip(deployment.workers, earlier, strict=True):
        assert worker.statuses[n:] == [-9]
    assert read_sweep(output) == expected

    rise = {name: deployment.count(name) - number for name, number in before.items()}
    assert rise["documents_scored"] >= 200
    assert rise["replicates"] >= 1
    metrics = (deployment.data / "job.prom").read_text()
    assert 'atd_dask_sweeps_total{job_name="job"} 1.0' in metrics
    assert 'atd_dask_finished_timestamp_seconds{job_name="job"}' in metrics


def test_workers_come_back_to_a_scheduler_that_died(deployment: Deployment) -> None:
    earlier = [len(worker.statuses) for worker in deployment.workers]
    deployment.scheduler.kill()
    deadline = time.monotonic() + 240
    while any(
        len(worker.statuses) == n for worker, n in zip(deployment.workers, earlier, strict=True)
    ):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert {worker.statuses[-1] for worker in deployment.workers} == {0}, "as if all were well"
    deployment.wait_for_workers()
