"""Pieces of work that need others before them, as tasks that depend on each other."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from atd_dask.distribution.engine.keys import task_key

if TYPE_CHECKING:
    from distributed import Client, Future


@dataclass(frozen=True)
class GraphTask:
    """A piece of work, what it is called, and the pieces that must be done before it."""

    piece: Any
    kind: str
    name: str
    needs: Sequence[Any]


def run_graph(
    client: Client, step: Callable[..., object], shared: Any, tasks: Sequence[GraphTask]
) -> Generator[Any, None, None]:
    """step(shared, piece) for every task, each after those that it needs and that are among the
    tasks before it; yields each piece when it is done. Closed early, it cancels what is
    outstanding."""
    from distributed import as_completed

    futures: dict[Any, Future[Any]] = {}
    pieces: dict[Future[Any], Any] = {}
    for task in tasks:
        before = [futures[other] for other in task.needs if other in futures]
        key = task_key(task.kind, task.name)
        # In their order: what others wait for comes first.
        future = client.submit(
            _run_after,
            before,
            step,
            shared,
            task.piece,
            key=key,
            pure=False,
            priority=-len(futures),
        )
        futures[task.piece] = future
        pieces[future] = task.piece
    try:
        for future in as_completed(list(pieces)):
            future.result()
            yield pieces[future]
    finally:
        client.cancel(list(pieces))


def _run_after(before: Sequence[Any], step: Callable[..., object], shared: Any, piece: Any) -> None:
    step(shared, piece)
