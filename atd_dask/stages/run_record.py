"""What a run did, on what, and how long it took: `run.json` beside the result."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from atd_dask.config.run_config import RunConfig, as_dict
from atd_dask.distribution.engine.lazy_client import LazyClient, find_open, when_open
from atd_dask.distribution.engine.observation import (
    ClusterFacts,
    Peak,
    describe_cluster,
    forget_peaks,
    list_versions,
    read_peaks,
)
from atd_dask.errors import OutageError, UserError
from atd_dask.storage.runs import read_note, read_run, write_run
from atd_dask.wording import hide_credentials

if TYPE_CHECKING:
    from atd_dask.distribution.engine.clients import Client

FORMAT = "atd-dask-run/1"
HIDDEN = "not written down"


@contextmanager
def record_run(
    config: RunConfig, client: Client | LazyClient, command: Sequence[str], id: str
) -> Iterator[RunRecord]:
    """A record that says how the block ended."""
    record = RunRecord(config, client, command, id)
    try:
        yield record
    except BaseException as error:
        stopped = isinstance(error, KeyboardInterrupt)
        # The error itself matters more, and a store that has given out would only be waited for.
        if not isinstance(error, OutageError):
            with suppress(Exception):
                record.write("stopped" if stopped else "failed", describe_error(error))
        raise
    record.write("finished")


class RunRecord:
    """A run as it goes on. The file is written anew after every stage, so that it tells of those
    that were finished whatever happens next."""

    def __init__(
        self, config: RunConfig, client: Client | LazyClient, command: Sequence[str], id: str
    ) -> None:
        self._client = client
        self._start = time.monotonic()
        self._peak = Peak()
        # What earlier runs made is still there, and how and where they made it stays known.
        earlier = read_run(config.output) or {}
        self._stages: dict[str, dict[str, Any]] = {
            name: {"seconds": 0.0, "reused": True, "made": stage["made"]}
            for name, stage in earlier.get("stages", {}).items()
            if stage.get("made") is not None
        }
        self._earlier_cluster = earlier.get("cluster")
        self._cluster: ClusterFacts | None = None
        self._config = config
        self._command = hide_secrets(command)
        self._id = id
        self._started = _now()

    @contextmanager
    def stage(self, name: str, fresh: bool) -> Iterator[None]:
        """Measures a stage; `fresh` if nothing is reused."""
        note = None if fresh else read_note(self._config.output, name)
        made = self._stages.pop(name, {}).get("made")
        entry: dict[str, Any] = {"seconds": 0.0, "reused": False, "made": None}
        self._stages[name] = entry
        started, start = _now(), time.monotonic()
        try:
            with when_open(self._client, forget_peaks), when_open(self._client, self._note_cluster):
                yield
        finally:
            entry["seconds"] = _since(start)
        client = find_open(self._client)
        if client is not None:
            self._note_cluster(client)
        peak = read_peaks(client)
        self._peak = max(self._peak, peak, key=lambda it: it.total)
        entry["peak_memory_bytes"] = peak.total
        if note is not None and read_note(self._config.output, name) == note:
            entry |= {"reused": True, "made": made}
        else:
            how = {"seconds": entry["seconds"], "peak_memory_bytes": peak.total}
            entry["made"] = {"started": started, **how}
        self.write("running")

    @property
    def all_reused(self) -> bool:
        return all(stage["reused"] for stage in self._stages.values())

    def _note_cluster(self, client: Client) -> None:
        """A cluster may grow and shrink; the largest is told."""
        now = describe_cluster(client)
        if self._cluster is None or now.workers >= self._cluster.workers:
            self._cluster = now

    def write(self, status: str, error: str | None = None) -> None:
        record = {
            "format": FORMAT,
            "name": self._config.name,
            "id": self._id,
            "status": status,
            "error": error,
            "command": self._command,
            "started": self._started,
            "ended": None if status == "running" else _now(),
            "seconds": _since(self._start),
            "stages": self._stages,
            "peak_memory_bytes": self._peak.total,
            "peak_memory_bytes_of": asdict(self._peak),
            "cluster": asdict(self._cluster) if self._cluster else self._earlier_cluster,
            "versions": list_versions(),
            "configuration": describe_config(self._config),
        }
        write_run(self._config.output, record)


def describe_error(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "stopped on request"
    text = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
    return hide_credentials(text)[:1000]


def describe_config(config: RunConfig) -> dict[str, Any]:
    """The configuration as it was understood, without what may be a password."""
    described: dict[str, Any] = as_dict(config)
    if config.cluster is not None:
        described["cluster"]["kwargs"] = dict.fromkeys(config.cluster.kwargs, HIDDEN)
    # The address of a webhook is often all that it takes to use it.
    alert = described["sweep"]["alert"]
    alert |= {key: HIDDEN for key in ("command", "webhook") if alert[key]}
    hidden: dict[str, Any] = _hide_credentials(described)
    return hidden


def _hide_credentials(part: Any) -> Any:
    if isinstance(part, dict):
        return {key: _hide_credentials(value) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return [_hide_credentials(value) for value in part]
    return hide_credentials(part) if isinstance(part, str) else part


def hide_secrets(command: Sequence[str]) -> list[str]:
    """A command without the values for which the configuration hides them too."""
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
