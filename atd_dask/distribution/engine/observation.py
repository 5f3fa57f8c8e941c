"""What a cluster is, whether it fits the job, and how much of it the job used."""

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

from atd_dask.errors import SchedulerError
from atd_dask.run_types import ClusterFacts

if TYPE_CHECKING:
    from distributed import Client

PACKAGES = ("atd-dask", "numpy", "numba", "dask", "distributed", "zarr")
# A result may depend on these; what of Dask must agree, Dask says itself.
DECISIVE = ("python", "atd-dask", "numpy", "numba")
# A worker begins no task when it holds this share of its limit (Dask's worker.memory.pause).
USABLE = 0.8
KEPT_SPANS = 20  # of a scheduler in this process: workers still report on the latest
LOADED = 180 * 2**20  # bytes that a worker holds once it has loaded what tasks need


@dataclass(frozen=True)
class Peak:
    """The most memory that processes held, in bytes, since it was last forgotten."""

    client: int = 0
    workers: int = 0  # all together
    largest_worker: int = 0

    @property
    def total(self) -> int:
        return self.client + self.workers


def describe_cluster(client: Client) -> ClusterFacts:
    try:
        info = client.scheduler_info(n_workers=-1)
    except TypeError:  # a Dask that always tells of all workers
        info = client.scheduler_info()
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
    """The versions of what this process runs."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "none"
    return versions


def compare_versions(client: Client) -> list[str]:
    """A sentence for each package that workers have in another version than this process. A
    `SchedulerError` if a worker lacks atd-dask."""
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
        f" {len(addresses)} of {len(answers)} run {theirs}, {addresses[0]} for one: results may"
        " differ, or tasks fail"
        for (package, theirs), addresses in differing.items()
    ]


def check_memory(facts: ClusterFacts, needed: int, what: str) -> None:
    """A `SchedulerError` if the smallest worker cannot hold so many bytes beside what it holds
    already."""
    free = facts.smallest_free_bytes
    if 0 < free < needed:
        raise SchedulerError(
            f"every worker must have memory for {what}, which take about {format_bytes(needed)},"
            f" but the smallest has {format_bytes(free)} to spare, of a limit of"
            f" {format_bytes(facts.smallest_worker_bytes)}: give workers more memory, for a local"
            " cluster with cluster.local.memory_limit or fewer workers"
        )


def format_bytes(number: int) -> str:
    """A size for people."""
    size = float(number)
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:,.1f} GiB"


def forget_peaks(client: Client) -> None:
    """Measures the peaks from here on, where the system can; elsewhere they are those of the
    processes' whole lives."""
    _forget_own_peak()
    with suppress(Exception):  # a measurement never breaks a run
        client.run(_forget_own_peak, on_error="ignore")


def read_peaks(client: Client | None) -> Peak:
    here = _read_own_peak()
    answers: Mapping[str, Any] = {}
    if client is not None:
        with suppress(Exception):
            answers = client.run(_read_own_peak, on_error="ignore")
    # Workers may be threads of one process, or of this one.
    processes = dict(answers.values())
    processes.pop(here[0], None)
    sizes = list(processes.values())
    return Peak(here[1], sum(sizes), max(sizes, default=0))


def _forget_own_peak() -> None:
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _read_own_peak() -> tuple[str, int]:
    """This process, and the most memory that it held."""
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
    """Dask tells the tasks of the block as a span of this name."""
    from distributed import span

    with span(*tags):
        yield
    forget_spans(client)


def forget_spans(client: Client) -> None:
    """Lets go of spans that ended long ago. A scheduler keeps every span with all that it knows of
    its tasks for ever; one in this process would make it grow with every job."""
    scheduler: Any = getattr(getattr(client, "cluster", None), "scheduler", None)
    spans = getattr(scheduler, "extensions", {}).get("spans")
    if spans is not None:
        # In the scheduler's own thread, where nothing changes meanwhile.
        scheduler.loop.add_callback(_forget_old_spans, scheduler, spans)


def _forget_old_spans(scheduler: Any, spans: Any) -> None:
    with suppress(Exception):  # how Dask keeps them is its own affair
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
    """Writes Dask's page on what the block did to `path`, if one is given. A page that cannot be
    made is a warning: the work is done all the same."""
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
    """If the block breaks off, the workers that were started for it say no more: they would
    complain of every task from which they are taken."""
    try:
        yield
    except BaseException:
        if client.cluster is not None:
            with suppress(Exception):
                client.run(logging.disable, logging.CRITICAL, on_error="ignore")
        raise
