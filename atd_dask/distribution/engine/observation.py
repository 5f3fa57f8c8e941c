"""Describes a cluster, checks that it fits the job, and measures how much of it the job used."""

from __future__ import annotations

import logging
import os
import platform
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atd_dask.distribution.engine.failures import LOST
from atd_dask.errors import ClusterError, SchedulerError
from atd_dask.run_types import ClusterFacts

if TYPE_CHECKING:
    from distributed import Client

PACKAGES = ("atd-dask", "numpy", "numba", "dask", "distributed", "zarr")
# Results may depend on these. Dask itself checks the versions of its own packages.
DECISIVE = ("python", "atd-dask", "numpy", "numba")
# At this share of its memory limit, a worker starts no more tasks (Dask's worker.memory.pause).
USABLE = 0.8
KEPT_SPANS = 20  # in a scheduler in this process; workers still report on the latest
LOADED = 180 * 2**20  # bytes of a worker that has imported what tasks need


@dataclass(frozen=True)
class Peak:
    """The peak memory of processes in bytes, since it was last reset."""

    client: int = 0
    workers: int = 0  # total
    largest_worker: int = 0

    @property
    def total(self) -> int:
        return self.client + self.workers


def describe_cluster(client: Client) -> ClusterFacts:
    try:
        info = client.scheduler_info(n_workers=-1)
    except TypeError:  # an older Dask, which always lists all workers
        info = client.scheduler_info()
    if "workers" not in info:  # the client has given up its scheduler
        raise ClusterError(LOST)
    workers = info["workers"].values()
    limits = [int(worker["memory_limit"] or 0) for worker in workers]
    held = [int((worker.get("metrics") or {}).get("memory") or 0) for worker in workers]
    free = [
        max(1, int(USABLE * limit) - max(now, LOADED))
        for limit, now in zip(limits, held, strict=True)
        if limit
    ]
    return ClusterFacts(
        address=info["address"],
        dashboard=client.dashboard_link,
        workers=len(limits),
        threads=sum(worker["nthreads"] for worker in workers),
        memory_bytes=sum(limits) if all(limits) else 0,
        smallest_worker_bytes=min(filter(None, limits), default=0),
        smallest_free_bytes=min(free, default=0),
    )


def list_versions() -> dict[str, str]:
    """Return the versions of the packages in this process."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "none"
    return versions


def compare_versions(client: Client) -> list[str]:
    """Return a sentence for each package of which workers have another version. Raises
    SchedulerError if a worker lacks atd-dask."""
    answers: Mapping[str, Any] = client.run(list_versions, on_error="return")
    mine = list_versions()
    differing: dict[tuple[str, str], list[str]] = {}
    for address, theirs in sorted(answers.items()):
        if isinstance(theirs, Exception):
            raise SchedulerError(
                f"every worker must have atd-dask {mine['atd-dask']} installed, but {address}"
                f" cannot load it: {theirs}"
            )
        for package in DECISIVE:
            if theirs[package] != mine[package]:
                differing.setdefault((package, theirs[package]), []).append(address)
    return [
        f"workers should run {package} {mine[package]} as this process does, but"
        f" {len(addresses)} of {len(answers)} run {theirs}, such as {addresses[0]}: results may"
        " differ, or tasks may fail"
        for (package, theirs), addresses in differing.items()
    ]


def check_memory(facts: ClusterFacts, needed: int, what: str) -> None:
    """Raise SchedulerError if the smallest worker has less than `needed` bytes to spare."""
    free = facts.smallest_free_bytes
    if 0 < free < needed:
        raise SchedulerError(
            f"every worker must have memory for {what}, which take about {format_bytes(needed)},"
            f" but the smallest has {format_bytes(free)} to spare, out of a limit of"
            f" {format_bytes(facts.smallest_worker_bytes)}: give workers more memory (for a local"
            " cluster, raise cluster.local.memory_limit or use fewer workers)"
        )


def format_bytes(number: int) -> str:
    """Format a size for people."""
    size = float(number)
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:,.1f} GiB"


def forget_peaks(client: Client) -> None:
    """Reset the peaks, if the system allows it; otherwise they are those of the processes' whole
    lives."""
    _forget_own_peak()
    with suppress(Exception):  # a measurement never breaks a run
        client.run(_forget_own_peak, on_error="ignore")


def read_peaks(client: Client | None) -> Peak:
    here = _read_own_peak()
    answers: Mapping[str, Any] = {}
    if client is not None:
        with suppress(Exception):
            answers = client.run(_read_own_peak, on_error="ignore")
    # Workers may be threads of the same process, or of this one.
    processes = dict(answers.values())
    processes.pop(here[0], None)
    sizes = list(processes.values())
    return Peak(here[1], sum(sizes), max(sizes, default=0))


def _forget_own_peak() -> None:
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _read_own_peak() -> tuple[str, int]:
    """Return the id of this process, and its peak memory."""
    name = f"{socket.gethostname()}/{os.getpid()}"
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return name, int(line.split()[1]) * 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return name, peak if sys.platform == "darwin" else peak * 1024


@contextmanager
def name_tasks(client: Client, *tags: str) -> Iterator[None]:
    """Group the tasks of the block as a span with this name on the dashboard."""
    from distributed import span

    with span(*tags):
        yield
    forget_spans(client)


def forget_spans(client: Client) -> None:
    """Drop old spans. A scheduler keeps every span, with everything it knows about its tasks; if it
    is in this process, it would grow with every job."""
    scheduler: Any = getattr(getattr(client, "cluster", None), "scheduler", None)
    spans = getattr(scheduler, "extensions", {}).get("spans")
    if spans is not None:
        # In the scheduler's own thread, where nothing can change meanwhile.
        scheduler.loop.add_callback(_forget_old_spans, scheduler, spans)


def _forget_old_spans(scheduler: Any, spans: Any) -> None:
    with suppress(Exception):  # Dask's internals may change
        in_use = set(map(id, scheduler.task_groups.values()))
        for root in spans.root_spans[:-KEPT_SPANS]:
            whole = list(root.traverse_spans())
            if any(id(group) in in_use for span in whole for group in span.groups):
                continue
            for span in whole:
                spans.spans.pop(span.id, None)
                spans.spans_search_by_name[span.name].remove(span)
                for tag in span.name:
                    spans.spans_search_by_tag[tag].remove(span)
            spans.root_spans.remove(root)


@contextmanager
def report_performance(
    client: Client, path: str | None, warn: Callable[[str], None]
) -> Iterator[None]:
    """Write Dask's performance report on the block to `path`, if given. If that fails, warn: the
    work is done all the same."""
    if path is None:
        yield
        return
    try:
        client.run_on_scheduler(version, "bokeh")
    except PackageNotFoundError:
        raise SchedulerError(
            "--performance-report needs the package bokeh where the Dask scheduler runs"
        ) from None
    from distributed import performance_report

    report = performance_report(filename=path)
    report.__enter__()
    try:
        yield
    finally:
        try:
            report.__exit__(None, None, None)
        except Exception as error:
            warn(f"the performance report {path} could not be written: {error}")


@contextmanager
def hush_when_stopped(client: Client) -> Iterator[None]:
    """Silence the workers that were started for the block if it is interrupted: they would complain
    about every task that is taken from them."""
    try:
        yield
    except BaseException:
        if client.cluster is not None:
            with suppress(Exception):
                client.run(logging.disable, logging.CRITICAL, on_error="ignore")
        raise
