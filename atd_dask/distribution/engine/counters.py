"""Prometheus counters of the work done, in addition to Dask's own.

Each process counts its own work. Workers serve their counters on `/metrics` along with Dask's;
`dask worker --preload atd_dask.distribution.engine.counters` shows them from the start. The process
that runs a job has no port, so it adds its counters to a file for node_exporter. Without the
package prometheus-client nothing is counted.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from atd_dask.errors import UserError

MEANINGS = {
    "documents_ingested": "Documents whose words were counted for a corpus store",
    "documents_scored": "Documents fitted to a null model, to find clusters among them",
    "replicates": "Bootstrap clusters that were drawn and scored",
    "sweeps": "Sweeps that were finished",
    "alarms": "Significant clusters that were found",
}
LAST = "atd_dask_finished_timestamp_seconds"


@functools.cache
def _counters() -> Mapping[str, Any] | None:
    """Return the counters of this process, in the registry that Dask serves."""
    try:
        from prometheus_client import Counter
    except ImportError:
        return None
    return {name: Counter(f"atd_dask_{name}", text) for name, text in MEANINGS.items()}


_counters()
_silent: ContextVar[bool] = ContextVar("silent", default=False)


def count(**amounts: int) -> None:
    """Increase the counters of these names."""
    counters = _counters()
    if counters is not None and not _silent.get():
        for name, amount in amounts.items():
            counters[name].inc(amount)


@contextmanager
def count_nothing() -> Iterator[None]:
    """Count nothing in the block, which is a trial or warms up the kernels."""
    token = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(token)


def read_counts() -> dict[str, int]:
    """Return the counters of this process."""
    counters = _counters() or {}
    return {name: int(counter.collect()[0].samples[0].value) for name, counter in counters.items()}


@contextmanager
def keep_counts(path: str | None, name: str, warn: Callable[[str], None]) -> Iterator[None]:
    """Add what this process counts in the block to the file at `path`, if given, for the job
    `name`.

    The file is replaced atomically, and a job that fails does not update its time of success. If
    the file cannot be written, a warning says so.
    """
    if path is None:
        yield
        return
    if _counters() is None:
        raise UserError(
            "--metrics-file needs the package prometheus-client: pip install 'atd-dask[metrics]'"
        )
    before = read_counts()
    finished = False
    try:
        yield
        finished = True
    finally:
        new = {each: number - before[each] for each, number in read_counts().items()}
        try:
            _add_to_file(Path(path), name, new, finished)
        except Exception as error:  # the file may contain anything
            warn(f"the counters in {path} could not be updated: {error}")


def _add_to_file(path: Path, job: str, new: Mapping[str, int], finished: bool) -> None:
    from prometheus_client import CollectorRegistry, Counter, Gauge, write_to_textfile

    kept = _read_file(path, job)
    registry = CollectorRegistry()
    for name, text in MEANINGS.items():
        series = f"atd_dask_{name}"
        total = kept.get(f"{series}_total", 0.0) + new[name]
        if total:
            Counter(series, text, ["job_name"], registry=registry).labels(job).inc(total)
    last = time.time() if finished else kept.get(LAST)
    if last is not None:
        text = "When a job was last finished"
        Gauge(LAST, text, ["job_name"], registry=registry).labels(job).set(last)
    write_to_textfile(str(path), registry)


def _read_file(path: Path, job: str) -> dict[str, float]:
    from prometheus_client.parser import text_string_to_metric_families

    try:
        content = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    return {
        sample.name: sample.value
        for family in text_string_to_metric_families(content)
        for sample in family.samples
        if sample.labels.get("job_name") == job
    }
