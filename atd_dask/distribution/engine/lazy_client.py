"""A client that connects on first use: a run with nothing to do starts no cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distributed import Client


class LazyClient:
    """A proxy for the client that `start` returns; it calls `start` on first use."""

    def __init__(self, start: Callable[[], Client]) -> None:
        self._start = start
        self._client: Client | None = None
        self._waiting: list[Callable[[Client], object]] = []

    def open(self) -> Client:
        if self._client is None:
            self._client = self._start()
            while self._waiting:
                self._waiting.pop(0)(self._client)
        return self._client

    def __getattr__(self, name: str) -> Any:
        return getattr(self.open(), name)


def find_open(client: Client | LazyClient) -> Client | None:
    """Return the client itself, or None if it has not been started."""
    return client._client if isinstance(client, LazyClient) else client


@contextmanager
def when_open(client: Client | LazyClient, do: Callable[[Client], object]) -> Iterator[None]:
    """Call `do` with the client, now or as soon as it starts during the block."""
    opened = find_open(client)
    waiting = client._waiting if isinstance(client, LazyClient) else []
    if opened is not None:
        do(opened)
    else:
        waiting.append(do)
    try:
        yield
    finally:
        if do in waiting:
            waiting.remove(do)
