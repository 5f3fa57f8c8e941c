"""Events that tasks report while they run."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distributed import Client


@contextmanager
def listen(
    client: Client | None, on_event: Callable[[dict[str, Any]], None]
) -> Iterator[str | None]:
    """Yield a channel on which tasks report facts, or None without a cluster."""
    if client is None:
        yield None
        return
    channel = f"atd-dask-{uuid.uuid4().hex}"

    def handle(event: tuple[float, dict[str, Any]]) -> None:
        _, facts = event
        on_event(facts)

    client.subscribe_topic(channel, handle)
    try:
        yield channel
    finally:
        client.unsubscribe_topic(channel)


def report(channel: str | None, facts: dict[str, Any]) -> None:
    """Report facts from inside a task."""
    if channel is not None:
        from distributed import get_worker

        get_worker().log_event(channel, facts)
