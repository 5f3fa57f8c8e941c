"""Displays the events of a detection as tasks of a `Progress`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from atd_dask.progress import Progress, Task

OnProgress = Callable[[str, dict[str, Any]], None]


@contextmanager
def watch_detection(
    progress: Progress,
    replicates: int,
    searches: int,
    is_compiling: Callable[[], bool] | None = None,
) -> Iterator[OnProgress]:
    """Display a detection during the block; yield the callback for its events.

    Events are `growth` and `grown` of a candidate, its `replicates`, and `searches` in held-out
    documents.
    """
    with (
        progress.task("detect", unit="candidates", is_compiling=is_compiling) as whole,
        ExitStack() as parts,
    ):
        watcher = _Watcher(progress, whole, parts, {"replicates": replicates, "searches": searches})
        yield watcher.on_progress


class _Watcher:
    """Displays one part of a detection at a time. Events come from several threads."""

    def __init__(
        self, progress: Progress, whole: Task, parts: ExitStack, totals: dict[str, int]
    ) -> None:
        self._progress = progress
        self._whole = whole
        self._parts = parts
        self._totals = totals
        self._part: Task | None = None
        self._grown = 0
        self._lock = threading.Lock()

    def on_progress(self, event: str, facts: dict[str, Any]) -> None:
        told = {name: _shorten(value) for name, value in facts.items()}
        told.pop("worker", None)  # which worker reports does not matter
        cluster = told.pop("cluster", None)
        with self._lock:
            if event == "grown":
                self._parts.close()
                self._part = None
                self._grown = cluster
                self._whole.reach(cluster)
                size = told.pop("size")
                self._progress.say(f"candidate {cluster} is found", documents=size, **told)
            elif event == "growth" and cluster > self._grown:
                # Reports of workers may arrive late, after the cluster has grown.
                self._show(f"grow candidate {cluster}", None, "documents", told.pop("size"), told)
            elif event == "replicates":
                self._show(f"test candidate {cluster}", *self._named(event), told.pop("done"), told)
            elif event == "searches":
                self._show("search by chance", *self._named(event), told.pop("done"), told)

    def _named(self, event: str) -> tuple[int, str]:
        return self._totals[event], event

    def _show(
        self, stage: str, total: int | None, unit: str, done: float, facts: dict[str, Any]
    ) -> None:
        if self._part is None or self._part.stage != stage:
            self._parts.close()
            self._part = self._parts.enter_context(self._progress.task(stage, total, unit))
        self._part.reach(done, **facts)


def _shorten(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value
