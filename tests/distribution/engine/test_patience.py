from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from distributed import Client, LocalCluster

from atd_dask.config.cluster_options import ClusterOptions, LocalOptions
from atd_dask.distribution.engine import patience
from atd_dask.distribution.engine.clients import connect
from atd_dask.distribution.engine.patience import Look, Watch, wait_for_worker, watch_cluster
from atd_dask.errors import ClusterError
from tests.clusters import local_client

GONE = "the cluster has no workers"


def follow(looks: list[Look], limit: float = 60.0) -> tuple[list[str], str | None]:
    """What is said about looks that are two seconds apart, and how it ends."""
    lines: list[str] = []
    watch = Watch(limit, lines.append, lines.append)
    for number, look in enumerate(looks):
        ends = watch.look(look, 2.0 * number)
        if ends is not None:
            return lines, ends
    return lines, None


def test_after_ten_seconds_it_says_what_it_waits_for_and_how_long() -> None:
    lines, ends = follow([Look(pending=3, progress=1)] * 12)
    assert ends is None
    assert lines == [
        "no result for 10 s: the cluster has no workers: start some, or find out why none arrive;"
        " unless that changes, the job ends in 52 s and can be resumed",
        "no result for 20 s: the cluster has no workers: start some, or find out why none arrive;"
        " unless that changes, the job ends in 42 s and can be resumed",
    ]


def test_it_does_not_wait_for_ever() -> None:
    lines, ends = follow([Look(pending=3, progress=1)] * 100)
    assert len(lines) == 3
    assert ends is not None
    assert ends.startswith(f"gave up after 60 s: {GONE}")
    assert ends.endswith("; then run the same command again to resume")


@pytest.mark.parametrize(
    ("look", "sentence"),
    [
        (Look(1, 1, answers=False), "the scheduler does not answer"),
        (Look(1, 1, workers=2, paused=2), "the memory of all 2 workers is nearly full"),
        (Look(1, 1, workers=2, silent=2), "none of the 2 workers has been heard from for 10 s"),
        (Look(1, 1, workers=2), "none of the 2 workers is working"),
    ],
)
def test_what_it_waits_for(look: Look, sentence: str) -> None:
    lines, ends = follow([look] * 50)
    assert sentence in lines[0]
    assert ends is not None
    assert sentence in ends


def test_a_long_task_is_told_and_never_broken_off() -> None:
    lines, ends = follow([Look(1, 1, workers=3, working=2, silent=1)] * 2000)
    assert ends is None
    assert lines[0] == ("no result for 10 s: 2 of 3 workers (1 silent) are working on long tasks")
    assert len(lines) < 10


def test_whoever_gets_on_or_waits_for_nothing_is_left_alone() -> None:
    assert follow([Look(1, n) for n in range(500)]) == ([], None)
    assert follow([Look(0, 1)] * 500) == ([], None)
    # A worker that comes in time.
    looks = [*[Look(1, 1)] * 20, *[Look(1, 1, workers=1, working=1)] * 5, *[Look(1, 1)] * 20]
    assert follow(looks)[1] is None


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "SECONDS_BETWEEN_LOOKS", 0.05)
    monkeypatch.setattr(patience, "FIRST_WORD", 0.2)


@contextmanager
def no_workers() -> Iterator[Client]:
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def work(client: Client, lines: list[str]) -> None:
    with watch_cluster(client, 1.0, lines.append, lines.append):
        client.submit(sum, [1, 2], pure=False).result()


@pytest.mark.usefixtures("hasty")
def test_a_job_without_workers_ends() -> None:
    lines: list[str] = []
    with no_workers() as client:
        with pytest.raises(ClusterError, match=f"gave up after 1 s: {GONE}"):
            work(client, lines)
        with pytest.raises(ClusterError, match=f"gave up after 1 s: {GONE}"):
            wait_for_worker(client, 1.0, lines.append)
    assert all(GONE in line for line in lines)
    assert lines


@pytest.mark.usefixtures("hasty")
def test_a_job_in_another_thread_ends_too() -> None:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work(client, [])
        except BaseException as error:
            errors.append(error)

    with no_workers() as client:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join(timeout=120)
    (error,) = errors
    assert isinstance(error, ClusterError)
    assert GONE in str(error)


@pytest.mark.usefixtures("hasty")
def test_a_job_gets_on_when_a_worker_comes() -> None:
    lines: list[str] = []
    with no_workers() as client:

        def start_worker(line: str) -> None:
            lines.append(line)
            client.cluster.scale(1)

        with watch_cluster(client, 600.0, print, start_worker):
            assert client.submit(sum, [1, 2], pure=False).result() == 3
    assert GONE in lines[0]


def test_stopping_on_request_stays_what_it_is() -> None:
    def wait() -> None:
        with watch_cluster(client, 600.0, print, print):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)

    stopped = False
    with local_client(1) as client:
        try:
            wait()
        except KeyboardInterrupt:
            stopped = True
    assert stopped


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.usefixtures("hasty")
def test_a_task_that_kills_its_workers_is_one_sentence() -> None:
    with (
        connect(ClusterOptions(local=LocalOptions(1, 1))) as client,
        pytest.raises(ClusterError, match="a task was abandoned") as caught,
        watch_cluster(client, 600.0, print, print),
    ):
        client.submit(die, pure=False).result()
    told = str(caught.value)
    assert told.startswith("a task was abandoned after 4 workers died while running it, the last")
    assert "give workers more memory" in told
    assert "KilledWorker" not in told
