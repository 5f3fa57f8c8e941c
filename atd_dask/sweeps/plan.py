"""The plan of a sweep: whether there is a repository to sweep, and what is new in it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from atd_dask.config.consistency import GROWING, ONCE
from atd_dask.config.run_config import RunConfig
from atd_dask.errors import AtdError, InputError
from atd_dask.json_records import JsonRecord
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.locations import Location
from atd_dask.storage.run_layout import RunLayout
from atd_dask.storage.sealed_json import read_sealed, write_sealed
from atd_dask.storage.stage_notes import PartSummary, stage_key
from atd_dask.sweeps.collecting import collect
from atd_dask.sweeps.journal import Segment
from atd_dask.sweeps.retraining import FIRST, batch_store, find_reason, model_config
from atd_dask.sweeps.state import SweepState, write_state
from atd_dask.text.options import describe_text
from atd_dask.wording import alternatives

if TYPE_CHECKING:
    from atd_dask.distribution.engine.clients import Client
    from atd_dask.progress import Progress


@dataclass(frozen=True, kw_only=True)
class SweepPlan(JsonRecord):
    """The plan of a sweep; once it is written, the sweep is under way."""

    sweep: int
    started: str
    seconds: float  # spent on looking for new documents
    new: PartSummary
    segments: tuple[Segment, ...]  # of the journal after the sweep
    reason: str | None  # why the null model is trained before it, if it is


def check_repository(config: RunConfig) -> None:
    """Check that there are normal documents to start with, and a repository that can grow."""
    train, test = config.corpus.train, config.corpus.test
    if train is None or test is None:
        raise InputError(
            "a sweep needs corpus.train, the normal documents to start with, and corpus.test, the"
            f" growing repository, got corpus.dataset: {config.corpus.dataset}"
        )
    if test.format not in GROWING:
        raise InputError(
            f"corpus.test.format must be {alternatives(GROWING)} for sweeps, got {test.format}"
        )
    if config.detection.repeats > 1:
        raise InputError(f"detection.repeats {ONCE}, got {config.detection.repeats}")


def settings_key(config: RunConfig) -> str:
    """Return the key of the settings that all sweeps of a folder share: those of words and of the
    model."""
    text = describe_text(config.corpus.text)
    return stage_key(text, config.compatibility, config.null_model.topic_model)


def commit(config: RunConfig, state: SweepState) -> SweepState:
    write_state(config.output, state)
    return state


def make_plan(
    config: RunConfig, state: SweepState, client: Client, progress: Progress
) -> tuple[SweepState, SweepPlan | None]:
    """Look for new documents. If there are none, still note the files that were read."""
    assert state.model is not None
    number = state.sweep + 1
    layout = RunLayout(config.output).sweep(number)
    started, start = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
    train = CorpusStore.open(
        RunLayout(model_config(config, state.model.generation).output).corpus("train")
    )
    journal = state.journal(config.output)
    collected = collect(replace(config, output=layout.folder), journal, train, client, progress)
    taken = {segment.name for segment in state.segments}
    name = next(n for n in (f"{number:04d}-{i}" for i in range(len(taken) + 1)) if n not in taken)
    later = journal.add(name, collected.keys)
    if collected.summary is None:
        if later is not journal:
            state = commit(config, replace(state, segments=later.segments))
        return state, None
    plan = SweepPlan(
        sweep=number,
        started=started,
        seconds=round(time.monotonic() - start, 3),
        new=collected.summary,
        segments=later.segments,
        reason=find_reason(config.sweep, state) if state.sweep else FIRST,
    )
    # A plan has no absolute paths: the folder may be moved.
    inside = replace(plan.new, path=layout.relative(plan.new.path))
    write_sealed(layout.plan, replace(plan, new=inside).to_json())
    return state, plan


def read_plan(config: RunConfig, state: SweepState, progress: Progress) -> SweepPlan | None:
    """Return the plan of a sweep that was interrupted. A damaged plan is dropped: nothing was made
    from it, so its documents are still new."""
    number = state.sweep + 1
    layout = RunLayout(config.output).sweep(number)
    try:
        told = read_sealed(layout.plan)
        if told is None:
            return None
        plan = SweepPlan.from_json(told)
        whole = batch_store(config, number).digest == plan.new.digest and plan.sweep == number
    except AtdError as error:
        progress.warn(f"{error}: starting sweep {number} over")
        return None
    return replace(plan, new=plan.new.placed(layout, "new")) if whole else None


def forget_plan(config: RunConfig, number: int) -> None:
    """Drop the plan of an unfinished sweep, which then starts over by looking for new documents."""
    layout = RunLayout(config.output).sweep(number)
    location = Location.of(layout.folder)
    location.remove_files(
        [name for name in location.names() if name == layout.relative(layout.plan)]
    )
