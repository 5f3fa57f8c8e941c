from __future__ import annotations

import threading

import pytest
from distributed import Client

from atd_dask.distribution.engine.worker_threads import count_own_threads, share_local_threads
from tests.clusters import local_client

# Tasks of these workers are threads of this process.
meeting = threading.Barrier(2, timeout=60)


def count_together(_):
    meeting.wait()
    counted = count_own_threads()
    meeting.wait()
    return counted


@pytest.mark.parametrize(("n_threads", "each"), [(2, 1), (3, 1), (4, 2), (5, 2)])
def test_tasks_share_the_threads_of_their_worker(n_threads, each):
    with local_client(1, threads=n_threads) as client:
        assert client.submit(count_own_threads).result() == n_threads
        futures = client.map(count_together, range(2), pure=False)
        assert client.gather(futures) == [each, each]


def test_a_worker_with_one_thread_has_no_other():
    with local_client(2) as client:
        assert client.submit(count_own_threads).result() == 1


def test_a_few_tasks_share_the_threads_of_a_local_cluster():
    with local_client(3) as client:
        assert [share_local_threads(client, n_tasks) for n_tasks in (1, 2, 3, 4)] == [3, 1, 1, 1]
        # Somebody else's cluster, as far as this client knows.
        with Client(client.scheduler.address, set_as_default=False) as other:
            assert share_local_threads(other, 1) == 1
