"""Runs pieces of work with dependencies as a graph of tasks."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from atd_dask.distribution.engine.keys import task_key

if TYPE_CHECKING:
    from distributed import Client, Future


@dataclass(frozen=True)
class GraphTask:
    """A piece of work, its name, and the pieces it depends on."""

    piece: Any
    kind: str
    name: str
    needs: Sequence[Any]


def run_graph(
    client: Client, step: Callable[..., object], shared: Any, tasks: Sequence[GraphTask]
) -> Generator[Any, None, None]:
    """Call step(shared, piece) for every task, after the tasks it depends on, and yield each piece
    when it is done. Closing the generator cancels outstanding tasks."""
    from distributed import as_completed

    futures: dict[Any, Future[Any]] = {}
    pieces: dict[Future[Any], Any] = {}
    for task in tasks:
        before = [futures[other] for other in task.needs if other in futures]
        key = task_key(task.kind, task.name)
        # In order, so that dependencies come first.
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
