"""Records what a run did, on what, and how long it took, in `run.json` next to the result."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from atd_dask.config.run_config import RunConfig, as_dict
from atd_dask.distribution.engine.lazy_client import LazyClient, find_open, when_open
from atd_dask.distribution.engine.observation import (
    Peak,
    describe_cluster,
    forget_peaks,
    list_versions,
    read_peaks,
)
from atd_dask.errors import OutageError, UserError
from atd_dask.json_records import JsonObject
from atd_dask.run_types import ClusterFacts, RunRecord, StageMade, StageRecord
from atd_dask.storage.runs import read_note, read_run, write_run
from atd_dask.wording import hide_credentials

if TYPE_CHECKING:
    from atd_dask.distribution.engine.clients import Client

FORMAT = "atd-dask-run/1"
HIDDEN = "not written down"


@contextmanager
def record_run(
    config: RunConfig, client: Client | LazyClient, command: Sequence[str], id: str
) -> Iterator[RunRecorder]:
    """Record a run, and how the block ends."""
    recorder = RunRecorder(config, client, command, id)
    try:
        yield recorder
    except BaseException as error:
        stopped = isinstance(error, KeyboardInterrupt)
        # The error itself matters more, and an outage would only make the write wait.
        if not isinstance(error, OutageError):
            with suppress(Exception):
                recorder.write("stopped" if stopped else "failed", describe_error(error))
        raise
    recorder.write("finished")


class RunRecorder:
    """Records a run in progress. It rewrites the file after every stage, so that finished
    stages are on record whatever happens next."""

    def __init__(
        self, config: RunConfig, client: Client | LazyClient, command: Sequence[str], id: str
    ) -> None:
        self._client = client
        self._start = time.monotonic()
        self._peak = Peak()
        # Keep what is known of stages that earlier runs made: how, and on which cluster.
        earlier = read_run(config.output)
        self._stages = {
            name: StageRecord(seconds=0.0, reused=True, made=stage.made)
            for name, stage in (earlier.stages.items() if earlier else ())
            if stage.made is not None
        }
        self._earlier_cluster = earlier.cluster if earlier else None
        self._cluster: ClusterFacts | None = None
        self._config = config
        self._command = hide_secrets(command)
        self._id = id
        self._started = _now()

    @contextmanager
    def stage(self, name: str, fresh: bool) -> Iterator[None]:
        """Measure a stage; `fresh` if nothing is reused."""
        note = None if fresh else read_note(self._config.output, name)
        earlier = self._stages.pop(name, None)
        entry = self._stages[name] = StageRecord(seconds=0.0, reused=False, made=None)
        started, start = _now(), time.monotonic()
        try:
            with when_open(self._client, forget_peaks), when_open(self._client, self._note_cluster):
                yield
        finally:
            entry = self._stages[name] = replace(entry, seconds=_since(start))
        client = find_open(self._client)
        if client is not None:
            self._note_cluster(client)
        peak = read_peaks(client)
        self._peak = max(self._peak, peak, key=lambda it: it.total)
        reused = note is not None and read_note(self._config.output, name) == note
        if reused:
            made = earlier.made if earlier else None
        else:
            made = StageMade(started=started, seconds=entry.seconds, peak_memory_bytes=peak.total)
        self._stages[name] = replace(entry, reused=reused, made=made, peak_memory_bytes=peak.total)
        self.write("running")

    @property
    def all_reused(self) -> bool:
        return all(stage.reused for stage in self._stages.values())

    def _note_cluster(self, client: Client) -> None:
        """Remember the largest size that the cluster had."""
        with suppress(Exception):  # a stage that needs a lost cluster says so, others do not
            now = describe_cluster(client)
            if self._cluster is None or now.workers >= self._cluster.workers:
                self._cluster = now

    def write(self, status: str, error: str | None = None) -> None:
        record = RunRecord(
            format=FORMAT,
            name=self._config.name,
            id=self._id,
            status=status,
            error=error,
            command=tuple(self._command),
            started=self._started,
            ended=None if status == "running" else _now(),
            seconds=_since(self._start),
            stages=self._stages,
            peak_memory_bytes=self._peak.total,
            peak_memory_bytes_of=asdict(self._peak),
            cluster=self._cluster or self._earlier_cluster,
            versions=list_versions(),
            configuration=describe_config(self._config),
        )
        write_run(self._config.output, record)


def describe_error(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "stopped on request"
    text = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
    return hide_credentials(text)[:1000]


def describe_config(config: RunConfig) -> JsonObject:
    """Return the configuration as it was understood, without what may be a password."""
    described: JsonObject = as_dict(config)
    if config.cluster is not None:
        described["cluster"]["kwargs"] = dict.fromkeys(config.cluster.kwargs, HIDDEN)
    # Knowing the address of a webhook is often enough to use it.
    alert = described["sweep"]["alert"]
    alert |= {key: HIDDEN for key in ("command", "webhook") if alert[key]}
    hidden: JsonObject = _hide_credentials(described)
    return hidden


def _hide_credentials(part: Any) -> Any:
    if isinstance(part, dict):
        return {key: _hide_credentials(value) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return [_hide_credentials(value) for value in part]
    return hide_credentials(part) if isinstance(part, str) else part


def hide_secrets(command: Sequence[str]) -> list[str]:
    """Return a command without the values that the configuration hides too."""
    shown = []
    for argument in command:
        key, equals, _ = argument.removeprefix("--set=").partition("=")
        hidden = equals and (
            key in ("cluster", "sweep") or key.startswith(("cluster.kwargs", "sweep.alert"))
        )
        shown.append(f"{key}={HIDDEN}" if hidden else hide_credentials(argument))
    return shown


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _since(start: float) -> float:
    return round(time.monotonic() - start, 3)
