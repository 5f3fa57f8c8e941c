"""Displays the events of a detection as tasks of a `Progress`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from atd_dask.distribution.checkpointing import (
    DetectionEvent,
    Growing,
    Grown,
    OnProgress,
    ReplicatesDone,
    SearchesDone,
)
from atd_dask.json_records import Json
from atd_dask.progress import Progress, Task


@contextmanager
def watch_detection(
    progress: Progress,
    replicates: int,
    searches: int,
    is_compiling: Callable[[], bool] | None = None,
) -> Iterator[OnProgress]:
    """Display a detection during the block; yield the callback for its events."""
    with (
        progress.task("detect", unit="candidates", is_compiling=is_compiling) as whole,
        ExitStack() as parts,
    ):
        yield _Watcher(progress, whole, parts, replicates, searches).on_progress


class _Watcher:
    """Displays one part of a detection at a time. Events come from several threads."""

    def __init__(
        self, progress: Progress, whole: Task, parts: ExitStack, replicates: int, searches: int
    ) -> None:
        self._progress = progress
        self._whole = whole
        self._parts = parts
        self._replicates = replicates
        self._searches = searches
        self._part: Task | None = None
        self._grown = 0
        self._lock = threading.Lock()

    def on_progress(self, event: DetectionEvent) -> None:
        with self._lock:
            match event:
                case Grown():
                    self._parts.close()
                    self._part = None
                    self._grown = event.cluster
                    self._whole.reach(event.cluster)
                    self._progress.say(
                        f"candidate {event.cluster} is found",
                        documents=event.size,
                        support=_shorten(event.support),
                    )
                # Reports of workers may arrive late, after the cluster has grown.
                case Growing() if event.cluster > self._grown:
                    self._show(
                        f"grow candidate {event.cluster}",
                        None,
                        "documents",
                        event.size,
                        score=_shorten(event.score),
                        tested=event.tested,
                        failed=event.failed,
                    )
                case ReplicatesDone():
                    self._show(
                        f"test candidate {event.cluster}",
                        self._replicates,
                        "replicates",
                        event.done,
                        p_value=_shorten(event.p_value),
                    )
                case SearchesDone():
                    self._show(
                        "search held-out documents",
                        self._searches,
                        "searches",
                        event.done,
                        largest_support=_shorten(event.largest_support),
                    )

    def _show(self, stage: str, total: int | None, unit: str, done: float, **facts: Json) -> None:
        if self._part is None or self._part.stage != stage:
            self._parts.close()
            self._part = self._parts.enter_context(self._progress.task(stage, total, unit))
        self._part.reach(done, **facts)


def _shorten(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
