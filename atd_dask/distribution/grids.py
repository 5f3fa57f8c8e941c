"""Runs a grid on a cluster: a task for each piece, which saves its result before it ends.

Results are not sent between tasks: a piece reads those it needs from where they were saved. So an
interruption loses no more than the pieces that were running.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from atd_dask.distribution.engine.graph import GraphTask, run_graph
from atd_dask.json_records import Json

if TYPE_CHECKING:
    from atd_dask.distribution.engine.clients import Client

Arrays = Mapping[str, NDArray[Any]]


class Point(Protocol):
    """A piece of work with a name, and the pieces it needs."""

    @property
    def kind(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def needs(self) -> Sequence[Any]: ...


class Work(Protocol):
    """Computes a piece from those it needs. It is sent to workers."""

    def compute(self, point: Any, needed: Sequence[Arrays]) -> Arrays: ...


class PointCheckpointer(Protocol):
    """Saves finished pieces where this process and all workers can read them. It is sent to
    workers."""

    def load(self, name: str) -> tuple[Any, Arrays] | None: ...

    def save(self, name: str, facts: Mapping[str, Json], arrays: Arrays) -> None: ...


def run_grid(
    client: Client,
    work: Work,
    points: Sequence[Any],
    checkpointer: PointCheckpointer,
    on_progress: Callable[[Point], None] = lambda point: None,
) -> dict[Any, Arrays]:
    """Return the result of each point; a point comes after those it needs.

    Saved points are not computed again. `on_progress` is called for each point that is available.
    """
    found: dict[Any, Arrays] = {}
    for point in points:
        kept = checkpointer.load(point.name)
        if kept is not None:
            found[point] = kept[1]
            on_progress(point)
    missing = [
        GraphTask(point, f"grid-{point.kind}", point.name, point.needs)
        for point in points
        if point not in found
    ]
    with closing(run_graph(client, do_point, (work, checkpointer), missing)) as finished:
        for point in finished:
            found[point] = _load(checkpointer, point)
            on_progress(point)
    return {point: found[point] for point in points}


def do_point(given: tuple[Work, PointCheckpointer], point: Any) -> None:
    """Compute and save a piece, on the worker that runs it."""
    work, checkpointer = given
    needed = [_load(checkpointer, other) for other in point.needs]
    checkpointer.save(point.name, {}, work.compute(point, needed))


def _load(checkpointer: PointCheckpointer, point: Point) -> Arrays:
    kept = checkpointer.load(point.name)
    if kept is None:
        raise OSError(f"the piece {point.name} was finished, but its result cannot be read back")
    return kept[1]
