"""A scheduled sweep: what is new in a repository is tested against a kept null model.

A sweep is a small state machine over its folder. It looks for new documents and writes them down
with a plan; carries the plan out, which makes the folder of a run; and commits by writing the
state. Killed before the plan, it has not happened; killed after it, the next call goes on with it
and then looks for what is newer. Nothing but the state says what has been done, and it is written
whole or not at all. What follows from it, the history and the alerts, is made up for by the next
call.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from atd_dask.config.consistency import GROWING, ONCE
from atd_dask.config.run_config import RunConfig
from atd_dask.distribution.engine.counters import count
from atd_dask.distribution.engine.lazy_client import LazyClient, when_open
from atd_dask.distribution.engine.observation import name_tasks
from atd_dask.errors import AtdError, InputError
from atd_dask.pipelines.ingest import corpus_path
from atd_dask.pipelines.report import write_report
from atd_dask.report.history import render_history
from atd_dask.stages.run_record import record_run
from atd_dask.stages.text_settings import settle_as
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.files import join, read_file
from atd_dask.storage.stages import stage_key
from atd_dask.sweeps.alerts import deliver, list_channels
from atd_dask.sweeps.collecting import collect
from atd_dask.sweeps.journal import Segment
from atd_dask.sweeps.retraining import FIRST, batch_store, find_reason, make_model, model_config
from atd_dask.sweeps.state import (
    ALERT,
    LINE,
    PLAN,
    SweepState,
    read_history,
    read_object,
    read_state,
    sweep_folder,
    write_history,
    write_object,
    write_state,
)
from atd_dask.sweeps.sweep_detection import Examination, make_line
from atd_dask.text.options import describe_text
from atd_dask.wording import alternatives

if TYPE_CHECKING:
    from distributed import Client

    from atd_dask.progress import Progress

ALERT_FORMAT = "atd-dask-alert/1"
# Stands among those who are to be told for whoever reads the exit status of this process.
CALLER = "caller"


@dataclass(frozen=True)
class Outcome:
    """What a call did: the lines of the history that it added, and all that it had to tell."""

    lines: tuple[dict[str, Any], ...]
    alerts: tuple[dict[str, Any], ...]
    undelivered: tuple[str, ...]  # what went wrong


def sweep(
    config: RunConfig,
    client: Client | LazyClient,
    progress: Progress,
    command: Sequence[str] = (),
) -> Outcome:
    """Sweeps the repository `corpus.test`; the caller holds the lock of the folder."""
    check_repository(config)
    key = _make_key(config)
    state = read_state(config.output) or SweepState(key=key)
    if state.key != key:
        raise InputError(
            f"the sweeps in {config.output} were begun with another corpus.text, compatibility or"
            " null_model.topic_model: set it back, or choose another folder with --output"
        )
    unknown = [n for n in config.sweep.dismissed if not 1 <= n <= len(state.clusters)]
    if unknown:
        raise InputError(
            f"sweep.dismissed must have numbers of reported clusters, got {unknown[0]}, but"
            f" {len(state.clusters)} have been reported in {config.output}"
        )
    cluster = cast("Client", client)
    _publish(config, state)
    state, undelivered = _tell(config, state, progress)
    if state.model is None:
        note = make_model(config, state, FIRST, cluster, progress)
        state = _commit(config, replace(state, model=note))
    assert state.model is not None
    first = model_config(config, state.model.generation)
    config = settle_as(config, corpus_path(first, "train"))
    before = state.sweep
    while True:
        plan = _read_plan(config, state)
        left_over = plan is not None
        if plan is None:
            state, plan = _make_plan(config, state, cluster, progress)
        if plan is None:
            break
        state = _carry_out(config, state, plan, client, progress, command)
        _publish(config, state)
        if not left_over:
            break
    if state.sweep == before:
        progress.say(f"nothing new since sweep {before}" if before else "nothing to sweep yet")
    state, problems = _tell(config, state, progress, before)
    waiting = [sweep for sweep, to in state.pending.items() if CALLER in to]
    alerts = tuple(filter(None, (read_object(_find_alert(config, sweep)) for sweep in waiting)))
    lines = tuple(
        cast("dict[str, Any]", read_object(join(sweep_folder(config.output, number), LINE)))
        for number in range(before + 1, state.sweep + 1)
    )
    told = {n: tuple(c for c in to if c != CALLER) for n, to in state.pending.items()}
    told = {n: to for n, to in told.items() if to}
    if told != state.pending:
        _commit(config, replace(state, pending=told))
    return Outcome(lines, alerts, (*undelivered, *problems))


def check_repository(config: RunConfig) -> None:
    """A sweep needs normal documents to begin with, and a repository that can grow."""
    train, test = config.corpus.train, config.corpus.test
    if train is None or test is None:
        raise InputError(
            "a sweep needs corpus.train, normal documents to begin with, and corpus.test, the"
            f" repository that grows, but there is the dataset {config.corpus.dataset}"
        )
    if test.format not in GROWING:
        raise InputError(
            f"corpus.test.format must be {alternatives(GROWING)} for sweeps, got {test.format}"
        )
    if config.detection.repeats > 1:
        raise InputError(f"detection.repeats {ONCE}, got {config.detection.repeats}")


def _make_key(config: RunConfig) -> str:
    """Of the settings that all sweeps of a folder share: what a word is, and what a model."""
    text = describe_text(config.corpus.text)
    return stage_key(text, config.compatibility, config.null_model.topic_model)


def _commit(config: RunConfig, state: SweepState) -> SweepState:
    write_state(config.output, state)
    return state


def _make_plan(
    config: RunConfig, state: SweepState, client: Client, progress: Progress
) -> tuple[SweepState, dict[str, Any] | None]:
    """Looks for new documents; without any, files that were read in vain are noted all the same."""
    assert state.model is not None
    number = state.sweep + 1
    folder = sweep_folder(config.output, number)
    started, start = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
    train = CorpusStore.open(corpus_path(model_config(config, state.model.generation), "train"))
    journal = state.journal(config.output)
    collected = collect(replace(config, output=folder), journal, train, client, progress)
    taken = {segment.name for segment in state.segments}
    name = next(n for n in (f"{number:04d}-{i}" for i in range(len(taken) + 1)) if n not in taken)
    later = journal.add(name, collected.keys)
    if collected.summary is None:
        if later is not journal:
            state = _commit(config, replace(state, segments=later.segments))
        return state, None
    plan = {
        "sweep": number,
        "started": started,
        "seconds": round(time.monotonic() - start, 3),
        "new": collected.summary,
        "segments": [{"name": s.name, "keys": s.keys} for s in later.segments],
        "reason": find_reason(config.sweep, state) if state.sweep else FIRST,
    }
    write_object(join(folder, PLAN), plan)
    return state, plan


def _read_plan(config: RunConfig, state: SweepState) -> dict[str, Any] | None:
    """The plan of a sweep that was cut off."""
    plan = read_object(join(sweep_folder(config.output, state.sweep + 1), PLAN))
    if plan is None:
        return None
    try:
        whole = batch_store(config, plan["sweep"]).digest == plan["new"]["digest"]
    except AtdError:
        whole = False
    return plan if whole else None


def _carry_out(
    config: RunConfig,
    state: SweepState,
    plan: dict[str, Any],
    client: Client | LazyClient,
    progress: Progress,
    command: Sequence[str],
) -> SweepState:
    """Tests the new documents of a plan, with the window; gives the state after it, committed."""
    number, start = plan["sweep"], time.monotonic()
    mine = replace(
        config, output=sweep_folder(config.output, number), name=f"{config.name} sweep {number}"
    )
    progress.say(f"sweep {number}", new_documents=plan["new"]["documents"])
    cluster = cast("Client", client)

    def prepare(opened: Client) -> None:
        span.enter_context(name_tasks(config.name, f"sweep {number}"))

    with (
        record_run(mine, client, command, progress.run) as record,
        ExitStack() as span,
        when_open(client, prepare),
    ):
        if plan["reason"] not in (None, FIRST):
            with record.stage("train", fresh=True), progress.stage("train"):
                note = make_model(config, state, plan["reason"], cluster, progress)
                state = replace(state, model=note, drift=())
        assert state.model is not None
        with record.stage("detect", fresh=True), progress.stage("detect"):
            findings = Examination(config, mine, state, number, cluster, progress).examine()
        record.write("finished")
        with record.stage("report", fresh=True), progress.stage("report"):
            write_report(mine.output)
    seconds = {"seconds": round(plan["seconds"] + time.monotonic() - start, 3)}
    line = make_line(findings, plan, state.model.generation)
    write_object(join(mine.output, LINE), line | seconds)
    pending = dict(state.pending)
    if findings.news:
        write_object(join(mine.output, ALERT), _make_alert(config, mine, number, findings.news))
        pending[str(number)] = (CALLER, *list_channels(config.sweep.alert))
    segments = tuple(Segment(**segment) for segment in plan["segments"])
    state = _commit(
        config, replace(findings.state, sweep=number, segments=segments, pending=pending)
    )
    count(sweeps=1, alarms=len(findings.news))
    with suppress(Exception):  # what is left lying about does no harm
        state.journal(config.output).tidy()
    return state


def _make_alert(
    config: RunConfig, mine: RunConfig, number: int, news: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "format": ALERT_FORMAT,
        "name": config.name,
        "sweep": number,
        "result": join(mine.output, "result.json"),
        "report": join(mine.output, "report.html"),
        "clusters": news,
    }


def _publish(config: RunConfig, state: SweepState) -> None:
    """Brings the history and its page up to the state."""
    lines, is_whole = read_history(config.output, state.sweep)
    if not is_whole:
        write_history(config.output, lines, render_history(config.name, lines))


def _find_alert(config: RunConfig, sweep: str) -> str:
    return join(sweep_folder(config.output, int(sweep)), ALERT)


def _tell(
    config: RunConfig, state: SweepState, progress: Progress, after: int = 0
) -> tuple[SweepState, list[str]]:
    """Delivers what waits of the sweeps after one, to all but the caller, and notes what has
    arrived. Also gives what went wrong."""
    problems = []
    for sweep, waiting in list(state.pending.items()):
        if int(sweep) <= after:
            continue
        message = read_file(_find_alert(config, sweep))
        left = [CALLER] if CALLER in waiting else []
        for channel in list_channels(config.sweep.alert):
            if channel not in waiting or message is None:
                continue
            problem = deliver(config.sweep.alert, channel, message)
            if problem is not None:
                left.append(channel)
                problems.append(f"the alert of sweep {sweep} could not be delivered: {problem}")
        pending = {n: to for n, to in state.pending.items() if n != sweep}
        if left:
            pending[sweep] = tuple(left)
        if tuple(left) != waiting:
            state = _commit(config, replace(state, pending=pending))
    for problem in problems:
        progress.warn(f"{problem}; the next sweep tries again")
    return state, problems
