"""Events that tasks report while they run."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

from atd_dask.json_records import JsonObject

if TYPE_CHECKING:
    from distributed import Client

# One topic for all jobs. The scheduler never forgets a topic, nor a client the handler of one; of a
# single topic the scheduler keeps a bounded number of events.
TOPIC = "atd-dask"

# Those in this process, by the id of the client and the channel.
_callbacks: dict[tuple[str, str], Callable[[JsonObject], None]] = {}
_subscribing = Lock()


@contextmanager
def listen(client: Client | None, on_event: Callable[[JsonObject], None]) -> Iterator[str | None]:
    """Yield a channel on which tasks report events, or None without a cluster.

    Events are sent as JSON: `asdict` of a dataclass, and back. Those that arrive after the block
    are dropped.
    """
    if client is None:
        yield None
        return
    channel = uuid.uuid4().hex
    with _subscribing:
        client.subscribe_topic(TOPIC, partial(_dispatch, client.id))
        _callbacks[client.id, channel] = on_event
    try:
        yield channel
    finally:
        with _subscribing:
            del _callbacks[client.id, channel]
            if all(listening != client.id for listening, _ in _callbacks):
                client.unsubscribe_topic(TOPIC)


def _dispatch(client_id: str, event: tuple[float, JsonObject]) -> None:
    """Call whoever listens. Every client hears the events of all jobs on the cluster."""
    _, content = event
    on_event = _callbacks.get((client_id, content["channel"]))
    if on_event is not None:
        on_event(content["content"])


def report(channel: str | None, content: JsonObject) -> None:
    """Report an event from inside a task."""
    if channel is not None:
        from distributed import get_worker

        get_worker().log_event(TOPIC, {"channel": channel, "content": content})
