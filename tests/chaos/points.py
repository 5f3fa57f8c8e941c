"""Holds a job in the middle of a stage, until a fault has been injected.

The client installs this before it starts, and Dask's workers load it as a preload. Whichever of
them reaches the point first says so and waits until the file named by `ATD_TEST_POINT` is gone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

VARIABLE = "ATD_TEST_POINT"
STAGES = ("ingest", "train", "detect", "report", "sweep")


def hold_in(file: Path, stage: str) -> dict[str, str]:
    """The environment of a job that is held in a stage."""
    file.write_text(stage)
    return {VARIABLE: str(file), "DASK_DISTRIBUTED__WORKER__PRELOAD": __file__}


def is_reached(file: Path) -> bool:
    return file.with_suffix(".reached").exists()


def wait_here(file: Path) -> None:
    if file.exists():
        file.with_suffix(".reached").touch()
    while file.exists():
        time.sleep(0.02)


def install() -> None:
    """Makes this process wait when it gets to the point."""
    if VARIABLE not in os.environ:
        return
    file = Path(os.environ[VARIABLE])
    try:
        stage = file.read_text()
    except FileNotFoundError:  # a worker that was started after the fault
        return
    if stage == "ingest":
        from atd_dask.distribution import counting

        counting.count_shard = _after(counting.count_shard, file)
    elif stage == "report":
        from atd_dask.pipelines import run

        run.write_report = _before(run.write_report, file)
    else:
        _hold_checkpoints("train" if stage == "train" else "detect", file)


def _hold_checkpoints(folder: str, file: Path) -> None:
    from atd_dask.storage.checkpoints import Checkpoints

    save = Checkpoints.save

    def save_and_wait(self: Checkpoints, name: str, facts: Mapping[str, Any], arrays: Any) -> None:
        save(self, name, facts, arrays)
        if self.url.endswith(folder):
            wait_here(file)

    Checkpoints.save = save_and_wait  # type: ignore[method-assign]


def _after(do: Callable[..., Any], file: Path) -> Callable[..., Any]:
    @wraps(do)
    def act(*given: Any, **options: Any) -> Any:
        made = do(*given, **options)
        wait_here(file)
        return made

    return act


def _before(do: Callable[..., Any], file: Path) -> Callable[..., Any]:
    @wraps(do)
    def act(*given: Any, **options: Any) -> Any:
        wait_here(file)
        return do(*given, **options)

    return act


def dask_setup(worker: object) -> None:
    """Called by Dask in every worker that loads this file."""
    install()
