"""A preload for Dask's workers that holds a job in the middle, however fast the machine is.

While the file named by `ATD_TEST_HOLD` exists, workers stop once they have saved some pieces of
work together. The file has that number and, if only some pieces count, the end of their folder.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from atd_dask.storage.checkpoints import Checkpoints

VARIABLE = "ATD_TEST_HOLD"
_save = Checkpoints.save


def hold_after(file: Path, n_pieces: int, folder: str = "") -> dict[str, str]:
    """The environment of a job whose workers are held."""
    file.write_text(f"{n_pieces} {folder}")
    _count_file(file).write_bytes(b"")
    return {VARIABLE: str(file), "DASK_DISTRIBUTED__WORKER__PRELOAD": __file__}


def count_kept(file: Path) -> int:
    """How many pieces all workers have saved so far."""
    return _count_file(file).stat().st_size


def _count_file(file: Path) -> Path:
    return file.with_suffix(".kept")


def _save_and_hold(self: Checkpoints, name: str, facts: Mapping[str, Any], arrays: Any) -> None:
    _save(self, name, facts, arrays)
    file = Path(os.environ[VARIABLE])
    try:
        n_pieces, _, folder = file.read_text().partition(" ")
    except FileNotFoundError:
        return
    if self.url.endswith(folder):
        with _count_file(file).open("ab") as counted:
            counted.write(b".")
        while count_kept(file) >= int(n_pieces) and file.exists():
            time.sleep(0.02)


def dask_setup(worker: object) -> None:
    """Called by Dask in every worker that loads this file."""
    if VARIABLE in os.environ:
        Checkpoints.save = _save_and_hold  # type: ignore[method-assign]
