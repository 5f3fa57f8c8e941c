"""Damaged stores of sweeps: rebuilds what can be rebuilt, and names the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from atd_dask.config.run_config import RunConfig
from atd_dask.errors import DamagedStoreError
from atd_dask.storage.locations import Location
from atd_dask.storage.run_layout import RunLayout
from atd_dask.storage.runs import read_note
from atd_dask.storage.stage_notes import forget_stage
from atd_dask.storage.verification import find_damaged_stores, verify
from atd_dask.sweeps.plan import forget_plan
from atd_dask.sweeps.state import RESTORE, SweepState, read_state

if TYPE_CHECKING:
    from atd_dask.progress import Progress


def repair_stores(config: RunConfig, progress: Progress) -> bool:
    """Arrange for damaged stores to be rebuilt; return False if none is damaged.

    An unfinished sweep starts over, because its documents are still new. A null model is trained
    again on the same documents. Documents of earlier sweeps, and those that a model was trained on,
    exist nowhere else.

    Raises
    ------
    DamagedStoreError
        If a damaged store cannot be rebuilt.
    """
    layout = RunLayout(config.output)
    state = read_state(config.output)
    number = 1 if state is None else state.sweep + 1
    in_use = 0 if state is None or state.model is None else state.model.generation
    if state is not None:
        _check_kept(config, state)
    damaged = []
    for generation in (in_use, in_use + 1):
        for store in find_damaged_stores(layout.model_run(generation).folder) if generation else []:
            if generation == in_use and store.stage != "train":
                raise DamagedStoreError(f"{store.path} is damaged: {RESTORE}")
            forget_stage(store.folder, store.stage)
            damaged.append(f"{store.path} is damaged: running {store.stage} again")
    new = layout.sweep(number).corpus("new")
    if _is_damaged(new):
        forget_plan(config, number)
        damaged.append(f"{new} is damaged: starting sweep {number} over")
    for line in damaged:
        progress.warn(line)
    return bool(damaged)


def needs_training(config: RunConfig, state: SweepState) -> bool:
    """Return whether the current null model must be trained again because it was damaged."""
    assert state.model is not None
    folder = RunLayout(config.output).model_run(state.model.generation).folder
    return read_note(folder, "train") is None


def _check_kept(config: RunConfig, state: SweepState) -> None:
    """Check that the stores of earlier sweeps that are still used are sound."""
    layout = RunLayout(config.output)
    first = max(1, state.sweep + 1 - config.sweep.window)
    used = [layout.sweep(sweep).corpus("new") for sweep in range(first, state.sweep + 1)]
    used += [] if state.known is None else [layout.sweep(state.known).corpus("known")]
    for path in used:
        if _is_damaged(path, must_exist=True):
            raise DamagedStoreError(f"{path} is damaged: {RESTORE}")


def _is_damaged(path: str, must_exist: bool = False) -> bool:
    return bool(verify(path)) if Location.of(path).names() else must_exist
