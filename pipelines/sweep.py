"""A scheduled sweep: tests what is new in a repository against a null model that is kept.

A sweep is a small state machine over its folder. It looks for new documents and stores them with a
plan, carries the plan out, which makes the folder of a run, and commits by writing the state. If it
is killed before the plan is written, it has not happened. If it is killed later, the next call
resumes the plan and then looks for newer documents. Only the state says what has been done, and it
is written atomically. If the history and the alerts lag behind the state, the next call catches up.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from atd_dask.config.run_config import RunConfig
from atd_dask.distribution.engine.counters import count
from atd_dask.distribution.engine.lazy_client import LazyClient, when_open
from atd_dask.distribution.engine.observation import name_tasks
from atd_dask.distribution.engine.patience import watch_cluster
from atd_dask.errors import DamagedStoreError, InputError
from atd_dask.pipelines.ingest import ingest
from atd_dask.pipelines.report import write_report
from atd_dask.pipelines.run import find_patience
from atd_dask.pipelines.train import train
from atd_dask.report.history import render_history
from atd_dask.result_types import Alert, SweepLine
from atd_dask.stages.run_record import record_run
from atd_dask.stages.text_settings import resolve_as
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.ownership import claim_folder
from atd_dask.storage.run_layout import RunLayout
from atd_dask.storage.sealed_json import write_sealed
from atd_dask.sweeps.alarm_series import continue_series, find_haste, find_level, say_promise
from atd_dask.sweeps.alerting import CALLER, deliver_alerts, make_alert, read_alert, write_alert
from atd_dask.sweeps.alerts import list_channels
from atd_dask.sweeps.plan import (
    SweepPlan,
    check_repository,
    commit,
    make_plan,
    read_plan,
    settings_key,
)
from atd_dask.sweeps.repair import needs_training, repair_stores
from atd_dask.sweeps.retraining import (
    FIRST,
    gather_normal,
    measure_model,
    model_config,
)
from atd_dask.sweeps.state import (
    ModelNote,
    SweepState,
    read_history,
    read_line,
    read_state,
    write_history,
)
from atd_dask.sweeps.sweep_detection import SweepDetection
from atd_dask.sweeps.sweep_line import make_line

if TYPE_CHECKING:
    from atd_dask.distribution.engine.clients import Client
    from atd_dask.progress import Progress


@dataclass(frozen=True)
class Outcome:
    """What a call did: the lines that it added to the history, and its alerts."""

    lines: tuple[SweepLine, ...]
    alerts: tuple[Alert, ...]
    undelivered: tuple[str, ...]  # what went wrong


def sweep(
    config: RunConfig,
    client: Client | LazyClient,
    progress: Progress,
    command: Sequence[str] = (),
) -> Outcome:
    """Sweep the repository `corpus.test`; the caller holds the lock of the folder. Damaged stores
    are made again if possible."""
    check_repository(config)
    claim_folder(config.output)
    with watch_cluster(client, find_patience(config), progress.say, progress.warn):
        try:
            return _sweep(config, client, progress, command)
        except (DamagedStoreError, InputError):
            if not repair_stores(config, progress):
                raise
        return _sweep(config, client, progress, command)


def _sweep(
    config: RunConfig, client: Client | LazyClient, progress: Progress, command: Sequence[str]
) -> Outcome:
    key = settings_key(config)
    state = read_state(config.output) or SweepState(key=key)
    if state.key != key:
        raise InputError(
            f"the sweeps in {config.output} were started with another corpus.text, compatibility or"
            " null_model.topic_model: set it back, or choose another folder with --output"
        )
    unknown = [n for n in config.sweep.dismissed if not 1 <= n <= len(state.clusters)]
    if unknown:
        raise InputError(
            f"sweep.dismissed must have numbers of reported clusters, got {unknown[0]}, but"
            f" {len(state.clusters)} have been reported in {config.output}"
        )
    cluster = cast("Client", client)
    _publish(config, state, progress)
    state, undelivered = deliver_alerts(config, state, progress)
    if state.model is None:
        note = make_model(config, state, FIRST, cluster, progress)
        state = commit(config, replace(state, model=note))
    elif needs_training(config, state):
        train(model_config(config, state.model.generation), cluster, progress)
    assert state.model is not None
    first = model_config(config, state.model.generation)
    config = resolve_as(config, RunLayout(first.output).corpus("train"))
    before = state.sweep
    while True:
        plan = read_plan(config, state, progress)
        left_over = plan is not None
        if plan is None:
            state, plan = make_plan(config, state, cluster, progress)
        if plan is None:
            break
        state = _carry_out(config, state, plan, client, progress, command)
        _publish(config, state, progress)
        if not left_over:
            break
    if state.sweep > before:
        history, _ = read_history(config.output, state.sweep, progress.warn)
        started = [line.started for line in history]
        if haste := find_haste(config, started):
            progress.warn(haste)
    if state.sweep == before:
        progress.say(f"nothing new since sweep {before}" if before else "nothing to sweep yet")
    state, problems = deliver_alerts(config, state, progress, before)
    waiting = [sweep for sweep, to in state.pending.items() if CALLER in to]
    told = filter(None, (read_alert(config, sweep, progress) for sweep in waiting))
    alerts = tuple(Alert.from_json(json.loads(content)) for content in told)
    lines = tuple(read_line(config.output, number) for number in range(before + 1, state.sweep + 1))
    left = {n: tuple(c for c in to if c != CALLER) for n, to in state.pending.items()}
    left = {n: to for n, to in left.items() if to}
    if left != state.pending:
        commit(config, replace(state, pending=left))
    return Outcome(lines, alerts, (*undelivered, *problems))


def _carry_out(
    config: RunConfig,
    state: SweepState,
    plan: SweepPlan,
    client: Client | LazyClient,
    progress: Progress,
    command: Sequence[str],
) -> SweepState:
    """Test the new documents of a plan together with the window; return the committed state."""
    number, start = plan.sweep, time.monotonic()
    series = continue_series(config, state.series)
    state = replace(state, series=series)
    significance = replace(config.detection.significance, level=find_level(config, series))
    sweep_config = replace(
        config,
        output=RunLayout(config.output).sweep(number).folder,
        name=f"{config.name} sweep {number}",
        detection=replace(config.detection, significance=significance),
    )
    progress.say(f"sweep {number}", new_documents=plan.new.documents, level=significance.level)
    cluster = cast("Client", client)

    def prepare(opened: Client) -> None:
        span.enter_context(name_tasks(opened, config.name, f"sweep {number}"))

    with (
        record_run(sweep_config, client, command, progress.run) as record,
        ExitStack() as span,
        when_open(client, prepare),
    ):
        if plan.reason not in (None, FIRST):
            with record.stage("train", fresh=True), progress.stage("train"):
                note = make_model(config, state, plan.reason, cluster, progress)
                state = replace(state, model=note, drift=())
        assert state.model is not None
        with record.stage("detect", fresh=True), progress.stage("detect"):
            findings = SweepDetection(config, sweep_config, state, number, cluster, progress).run()
        record.write("finished")
        with record.stage("report", fresh=True), progress.stage("report"):
            write_report(sweep_config.output)
    seconds = round(plan.seconds + time.monotonic() - start, 3)
    line = make_line(findings, plan, state.model.generation, seconds)
    layout = RunLayout(sweep_config.output)
    write_sealed(layout.line, line.to_json(), ascii_only=False)
    pending = dict(state.pending)
    if findings.news:
        write_alert(layout.alert, make_alert(config, sweep_config, number, findings.news))
        pending[str(number)] = (CALLER, *list_channels(config.sweep.alert))
    state = commit(
        config, replace(findings.state, sweep=number, segments=plan.segments, pending=pending)
    )
    count(sweeps=1, alarms=len(findings.news))
    with suppress(Exception):  # leftovers do no harm
        state.journal(config.output).tidy()
    return state


def _publish(config: RunConfig, state: SweepState, progress: Progress) -> None:
    """Bring the history and its page up to date with the state."""
    lines, is_whole = read_history(config.output, state.sweep, progress.warn)
    if not is_whole:
        page = render_history(config.name, lines, say_promise(config))
        write_history(config.output, lines, page)


def make_model(
    config: RunConfig, state: SweepState, reason: str, client: Client, progress: Progress
) -> ModelNote:
    """Train the next null model, reusing what is finished."""
    generation = 1 if state.model is None else state.model.generation + 1
    progress.say(f"training the null model: {reason}", generation=generation)
    model_run = model_config(config, generation)
    if state.model is None:
        ingest(model_run, client, progress)
    else:
        gather_normal(config, model_run, state, client, progress)
    summary = train(model_run, client, progress)
    unseen_share, log_likelihood = measure_model(model_run, client)
    stores = [
        CorpusStore.open(RunLayout(model_run.output).corpus(part))
        for part in ("train", "validation")
    ]
    return ModelNote(
        generation=generation,
        since=state.sweep + 1,
        reason=reason,
        documents=sum(store.n_docs for store in stores),
        n_topics=summary.n_topics,
        unseen_share=unseen_share,
        log_likelihood=log_likelihood,
    )
