"""Which Dask cluster a job runs on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class LocalOptions:
    """A cluster of processes on this machine.

    `auto` workers are as many as there are CPUs; `auto` threads share the CPUs out among the
    workers.
    """

    workers: int | Literal["auto"] = "auto"
    threads: int | Literal["auto"] = "auto"
    memory_limit: str = "auto"


@dataclass(frozen=True)
class TlsFiles:
    """The PEM files with which this job proves its identity and verifies that of the others."""

    ca: str
    cert: str
    key: str


@dataclass(frozen=True)
class ClusterOptions:
    """Which cluster to use: one of `local`, `address`, `scheduler_file` and `class_`."""

    local: LocalOptions | None = None
    address: str | None = None
    scheduler_file: str | None = None
    class_: str | None = None
    kwargs: Mapping[str, object] = field(default_factory=dict)
    adapt: Mapping[str, object] | None = None
    patience: float = 600.0
    worker_timeout: float = 60.0
    security: TlsFiles | None = None
