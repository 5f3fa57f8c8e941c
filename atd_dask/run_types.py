"""The types of a run's record: what `run.json` holds.

Fields have the names and the order of the JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from atd_dask.json_records import OMITTED, JsonObject, JsonRecord


@dataclass(frozen=True)
class ClusterFacts(JsonRecord):
    """A cluster at one moment. Memory is in bytes, 0 if there is no limit."""

    address: str
    dashboard: str | None
    workers: int
    threads: int
    memory_bytes: int
    smallest_worker_bytes: int
    smallest_free_bytes: int = 0  # what a worker can still take


@dataclass(frozen=True, kw_only=True)
class StageMade(JsonRecord):
    """When a stage was last computed, and what that took."""

    started: str
    seconds: float
    peak_memory_bytes: int


@dataclass(frozen=True, kw_only=True)
class StageRecord(JsonRecord):
    """What a run did in a stage."""

    seconds: float  # in this run
    reused: bool
    made: StageMade | None  # None if it was never finished
    peak_memory_bytes: int | None = field(default=None, metadata=OMITTED)

    @property
    def seconds_to_make(self) -> float:
        """How long it took, in an earlier run if it was reused."""
        return self.seconds if self.made is None else self.made.seconds


@dataclass(frozen=True, kw_only=True)
class RunRecord(JsonRecord):
    """What a run did, on what, and how long it took."""

    format: str
    name: str
    id: str
    status: str  # running, finished, stopped or failed
    error: str | None
    command: tuple[str, ...]
    started: str
    ended: str | None
    seconds: float
    stages: Mapping[str, StageRecord]  # by name
    peak_memory_bytes: int
    peak_memory_bytes_of: Mapping[str, int]  # client, workers, largest_worker
    cluster: ClusterFacts | None
    versions: Mapping[str, str]
    configuration: JsonObject  # without what may be a secret
