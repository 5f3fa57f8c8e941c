"""Holds a job in the middle of a stage, until a fault has been injected.

The client installs this before it starts, and Dask's workers load it as a preload. Whichever of
them reaches the point first says so and waits until the file named by `ATD_TEST_POINT` is gone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

VARIABLE = "ATD_TEST_POINT"
STAGES = ("ingest", "train", "detect", "report", "sweep")


def hold_in(file: Path, stage: str) -> None:
    """Holds the next job that gets to the stage."""
    _reached(file).unlink(missing_ok=True)
    file.write_text(stage)


def make_environment(file: Path) -> dict[str, str]:
    """The environment of clients and workers that can be held."""
    return {VARIABLE: str(file), "DASK_DISTRIBUTED__WORKER__PRELOAD": __file__}


def is_reached(file: Path) -> bool:
    return _reached(file).exists()


def _reached(file: Path) -> Path:
    return file.with_suffix(".reached")


def wait_here(stage: str) -> None:
    """Waits for as long as the file names this stage."""
    file = Path(os.environ[VARIABLE])

    def is_held() -> bool:
        try:
            return file.read_text() == stage
        except FileNotFoundError:
            return False

    if is_held():
        _reached(file).touch()
    while is_held():
        time.sleep(0.02)


def install() -> None:
    """Makes this process wait when it gets to a point, and not for long for an object store."""
    if VARIABLE not in os.environ:
        return
    from atd_dask.distribution import counting
    from atd_dask.pipelines import run
    from atd_dask.storage import locations
    from atd_dask.storage.checkpoints import Checkpoints

    locations.ANSWER = 10.0
    count, write, save = counting.count_shard, run.write_report, Checkpoints.save

    def count_and_wait(*given: Any, **options: Any) -> Any:
        counts = count(*given, **options)
        wait_here("ingest")
        return counts

    def wait_and_write(output: str) -> str:
        wait_here("report")
        return write(output)

    def save_and_wait(self: Checkpoints, name: str, facts: Mapping[str, Any], arrays: Any) -> None:
        save(self, name, facts, arrays)
        stage = self.url.rpartition("/")[2]
        wait_here("sweep" if stage == "detect" and "/sweeps/" in self.url else stage)

    counting.count_shard = count_and_wait
    run.write_report = wait_and_write
    Checkpoints.save = save_and_wait  # type: ignore[method-assign]


def dask_setup(worker: object) -> None:
    """Called by Dask in every worker that loads this file."""
    install()
