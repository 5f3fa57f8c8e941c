"""A grid on a cluster: a task for each piece, which keeps what it found before it says so.

Results do not travel: a piece finds those that it needs where they were kept. So whatever is
interrupted loses no more than the pieces that were running.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from atd_dask.distribution.engine.keys import task_key

if TYPE_CHECKING:
    from distributed import Client, Future

Arrays = Mapping[str, NDArray[Any]]


class Point(Protocol):
    """A piece of work that can be named, and what must be there before it."""

    @property
    def kind(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def needs(self) -> Sequence[Any]: ...


class Work(Protocol):
    """Computes a piece from those that it needs. It travels."""

    def compute(self, point: Any, needed: Sequence[Arrays]) -> Arrays: ...


class Keeper(Protocol):
    """Keeps finished pieces where this process and all workers reach them. It travels."""

    def load(self, name: str) -> tuple[Any, Arrays] | None: ...

    def save(self, name: str, facts: Mapping[str, Any], arrays: Arrays) -> None: ...


def run_grid(
    client: Client,
    work: Work,
    points: Sequence[Any],
    keeper: Keeper,
    tell: Callable[[Point], None] = lambda point: None,
) -> dict[Any, Arrays]:
    """What each point gives; a point stands after those that it needs. Those that were kept are not
    done again; `tell` hears of each that is there."""
    from distributed import as_completed

    found: dict[Any, Arrays] = {}
    under_way: dict[Future[Any], Any] = {}
    futures: dict[Any, Future[Any]] = {}
    for point in points:
        kept = keeper.load(point.name)
        if kept is not None:
            found[point] = kept[1]
            tell(point)
            continue
        before = [futures[other] for other in point.needs if other in futures]
        key = task_key(f"grid-{point.kind}", point.name)
        # In their order: what others wait for comes first.
        future = client.submit(
            do_point, work, point, keeper, before, key=key, pure=False, priority=-len(futures)
        )
        futures[point] = future
        under_way[future] = point
    try:
        for future in as_completed(list(under_way)):
            future.result()
            point = under_way[future]
            found[point] = _load(keeper, point)
            tell(point)
    finally:
        client.cancel(list(under_way))
    return {point: found[point] for point in points}


def do_point(work: Work, point: Any, keeper: Keeper, before: Sequence[None]) -> None:
    """Computes and keeps a piece, on the worker that runs it."""
    needed = [_load(keeper, other) for other in point.needs]
    keeper.save(point.name, {}, work.compute(point, needed))


def _load(keeper: Keeper, point: Point) -> Arrays:
    kept = keeper.load(point.name)
    if kept is None:
        raise OSError(f"the piece {point.name} was finished, but what it found cannot be read back")
    return kept[1]
