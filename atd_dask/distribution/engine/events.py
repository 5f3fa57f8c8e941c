"""Events that tasks report while they run."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from atd_dask.json_records import JsonObject

if TYPE_CHECKING:
    from distributed import Client


@contextmanager
def listen(client: Client | None, on_event: Callable[[JsonObject], None]) -> Iterator[str | None]:
    """Yield a channel on which tasks report events, or None without a cluster.

    Events are sent as JSON: `asdict` of a dataclass, and back.
    """
    if client is None:
        yield None
        return
    channel = f"atd-dask-{uuid.uuid4().hex}"

    def handle(event: tuple[float, JsonObject]) -> None:
        _, content = event
        # Dask adds the worker that reports, which does not matter.
        on_event({name: value for name, value in content.items() if name != "worker"})

    client.subscribe_topic(channel, handle)
    try:
        yield channel
    finally:
        client.unsubscribe_topic(channel)


def report(channel: str | None, content: JsonObject) -> None:
    """Report an event from inside a task."""
    if channel is not None:
        from distributed import get_worker

        get_worker().log_event(channel, content)
