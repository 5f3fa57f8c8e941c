from __future__ import annotations

import gc
import weakref
from typing import Any

from distributed import Client, Scheduler

from atd_dask.distribution.engine.events import TOPIC, listen, report
from tests.clusters import local_client, wait_for


def list_topics(dask_scheduler: Scheduler) -> dict[str, int]:
    """Each topic with the number of its subscribers."""
    topics = dask_scheduler._broker._topics.items()
    return {name: len(topic.subscribers) for name, topic in topics}


def run_job(client: Client, number: int) -> list[dict[str, Any]]:
    heard: list[dict[str, Any]] = []
    with listen(client, heard.append) as channel:
        client.submit(report, channel, {"number": number}, pure=False).result()
        wait_for(lambda: bool(heard))
    return heard


def test_each_listener_hears_its_own_tasks() -> None:
    with local_client(1) as client, Client(client.scheduler.address) as other:
        first: list[dict[str, Any]] = []
        with listen(client, first.append) as channel:
            assert run_job(other, 1) == [{"number": 1}]
            assert run_job(client, 2) == [{"number": 2}]
            client.submit(report, channel, {"number": 3}).result()
            wait_for(lambda: bool(first))
        assert first == [{"number": 3}]


def test_finished_jobs_leave_nothing_behind() -> None:
    """Neither a topic or subscriber on the scheduler, nor what the callback refers to."""

    class Job:
        def hear(self, content: dict[str, Any]) -> None:
            pass

    with local_client(1) as client:
        run_job(client, 0)
        wait_for(lambda: client.run_on_scheduler(list_topics)[TOPIC] == 0)
        topics = client.run_on_scheduler(list_topics)
        job = Job()
        with listen(client, job.hear):
            pass
        gone = weakref.ref(job)
        del job
        gc.collect()
        assert gone() is None
        for number in range(3):
            run_job(client, number)
        wait_for(lambda: client.run_on_scheduler(list_topics)[TOPIC] == 0)
        assert client.run_on_scheduler(list_topics) == topics


def test_late_events_are_dropped() -> None:
    heard: list[dict[str, Any]] = []
    with local_client(1) as client:
        with listen(client, heard.append) as channel:
            pass
        client.submit(report, channel, {"number": 1}).result()
        assert run_job(client, 2) == [{"number": 2}]
    assert heard == []


def test_without_a_cluster_nobody_listens() -> None:
    with listen(None, print) as channel:
        assert channel is None
        report(channel, {"number": 1})
