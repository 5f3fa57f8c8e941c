"""What is observed about real clusters."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from atd_dask.distribution.engine import observation
from atd_dask.distribution.engine.lazy_client import LazyClient, find_open, when_open
from atd_dask.distribution.engine.observation import (
    check_memory,
    compare_versions,
    describe_cluster,
    forget_peaks,
    format_bytes,
    hush_when_stopped,
    list_versions,
    read_peaks,
    report_performance,
)
from atd_dask.errors import ClusterError, SchedulerError
from atd_dask.run_types import ClusterFacts
from tests.clusters import local_client

# A worker where atd_dask is not installed.
BARE_WORKER = """
import sys
sys.modules["atd_dask"] = None
from distributed.cli.dask_worker import main
main()
"""


@pytest.fixture(scope="module")
def client():
    with local_client(2, threads=2, processes=True) as made:
        yield made


def fill(megabytes: int) -> int:
    return len(bytearray(b"x") * (megabytes * 2**20))


def test_a_cluster_is_described(client):
    facts = describe_cluster(client)
    assert facts.address == client.scheduler.address
    assert facts.dashboard == client.dashboard_link
    assert (facts.workers, facts.threads) == (2, 4)
    assert facts.memory_bytes == 2 * facts.smallest_worker_bytes > 0


def test_a_cluster_without_workers_or_limits_is_described():
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=0, processes=False, dashboard_address="127.0.0.1:0", memory_limit=0
        ) as made,
        Client(made) as client,
    ):
        facts = describe_cluster(client)
        assert (facts.workers, facts.memory_bytes, facts.smallest_worker_bytes) == (0, 0, 0)
        assert compare_versions(client) == []
        made.scale(1)
        client.wait_for_workers(1)
        facts = describe_cluster(client)
        assert (facts.workers, facts.memory_bytes, facts.smallest_worker_bytes) == (1, 0, 0)
        check_memory(facts, 2**60, "everything")


def test_a_scheduler_that_is_lost_is_a_sentence():
    class LostClient:
        """A client that has given up its scheduler knows nothing about it."""

        def scheduler_info(self, n_workers):
            return {}

    with pytest.raises(ClusterError, match="the connection to the Dask scheduler was lost"):
        describe_cluster(LostClient())


def test_peaks_are_those_of_a_stage(client):
    forget_peaks(client)
    before = read_peaks(client)
    assert client.submit(fill, 200, pure=False).result() == 200 * 2**20
    after = read_peaks(client)
    assert 180 * 2**20 < after.workers - before.workers < 260 * 2**20
    assert before.workers / 2 < after.largest_worker < after.workers
    assert after.total == after.client + after.workers
    if sys.platform == "linux":
        forget_peaks(client)
        assert read_peaks(client).workers < after.workers - 150 * 2**20
    assert fill(200)
    alone = read_peaks(None)
    assert alone.client > 200 * 2**20
    assert (alone.workers, alone.largest_worker) == (0, 0)


def test_a_worker_in_this_process_is_counted_once():
    with local_client(2) as client:
        peak = read_peaks(client)
    assert peak.client > 0
    assert peak.workers == 0


def test_versions_that_agree_are_no_news(client):
    assert compare_versions(client) == []
    assert list(list_versions()) == [
        *("python", "atd-dask", "numpy", "numba", "dask", "distributed", "zarr")
    ]


def test_versions_that_differ_are_told(client, monkeypatch):
    mine = list_versions() | {"numpy": "1.0", "dask": "1.0"}
    monkeypatch.setattr(observation, "list_versions", lambda: mine)
    # The workers get the function that was replaced here by its name, and so have their own.
    theirs = client.run(lambda: __import__("numpy").__version__)
    answers = client.run(list_versions)

    class Cluster:
        def run(self, function: Any, on_error: str) -> dict[str, Any]:
            return answers

    (sentence,) = compare_versions(Cluster())
    assert sentence.startswith("workers should run numpy 1.0 as this process does, but 2 of 2 run ")
    assert f" run {next(iter(theirs.values()))}, such as tcp://" in sentence


def test_a_worker_without_the_package_is_named():
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as made,
        Client(made) as client,
        subprocess.Popen(
            [sys.executable, "-c", BARE_WORKER, made.scheduler_address, "--no-nanny"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as worker,
    ):
        try:
            client.wait_for_workers(1, timeout=240)
            with pytest.raises(
                SchedulerError,
                match=r"must have atd-dask .* installed, but tcp://.* cannot load it: ",
            ):
                compare_versions(client)
        finally:
            worker.kill()


def test_memory_is_compared():
    facts = ClusterFacts("tcp://x", None, 2, 2, 3 * 2**30, 2**31, 2**30)
    check_memory(facts, 2**30, "it")
    with pytest.raises(
        SchedulerError,
        match=r"must have memory for it, which take about 2.0 GiB, but the smallest has 1.0 GiB to"
        r" spare, out of a limit of 2.0 GiB",
    ):
        check_memory(facts, 2**31, "it")


def test_sizes_for_people():
    sizes = [0, 1023, 2048, 3 * 2**20, 1536 * 2**20, 5000 * 2**30]
    assert [format_bytes(size) for size in sizes] == [
        *("0 bytes", "1023 bytes", "2 KiB", "3 MiB", "1.5 GiB", "5,000.0 GiB")
    ]


def test_a_performance_report(client, tmp_path):
    path = tmp_path / "page.html"
    warnings: list[str] = []
    with report_performance(client, str(path), warnings.append):
        client.submit(fill, 1, pure=False).result()
    assert "Dask Performance Report" in path.read_text()
    with report_performance(client, None, warnings.append):
        pass
    assert warnings == []
    with report_performance(client, str(tmp_path), warnings.append):
        pass
    assert len(warnings) == 1
    assert warnings[0].startswith(f"the performance report {tmp_path} could not be written: ")


def test_workers_say_no_more_when_a_run_breaks_off(capfd):
    with local_client(1, processes=True) as client:

        def break_off() -> None:
            with hush_when_stopped(client):
                raise KeyboardInterrupt("now")

        with pytest.raises(KeyboardInterrupt, match="now"):
            break_off()
        client.run(warn)
    assert "unheard" not in capfd.readouterr().err


def warn() -> None:
    import logging

    logging.getLogger("distributed.worker").error("unheard")


def test_a_lazy_client_is_opened_when_it_is_used():
    class Real:
        address = "here"

    opened: list[Any] = []
    calls: list[str] = []

    def start() -> Any:
        opened.append(Real())
        return opened[-1]

    client: Any = LazyClient(start)
    with when_open(client, lambda made: calls.append("gone")):
        pass
    assert find_open(client) is None
    with when_open(client, lambda made: calls.append(made.address)):
        assert (opened, calls) == ([], [])
        assert client.address == "here"
        assert client.address == "here"
        assert calls == ["here"]
    with when_open(client, lambda made: calls.append("at once")):
        assert calls == ["here", "at once"]
    assert len(opened) == 1
    assert find_open(client) is opened[0] is client.open()
    real: Any = Real()
    assert find_open(real) is real
    with when_open(real, lambda made: calls.append("real")):
        assert calls[-1] == "real"
