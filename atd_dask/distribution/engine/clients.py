"""Connects to a Dask cluster, or starts one."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import logging
import os
import signal
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread, current_thread, main_thread
from typing import TYPE_CHECKING, Any

from atd_dask.config.cluster_options import ClusterOptions, LocalOptions, TlsFiles
from atd_dask.errors import InputError, SchedulerError

if TYPE_CHECKING:
    from distributed import Client as Client

# The process that has had a cluster of threads. A process forked from it waits for these forever.
_processes_with_threads: set[int] = set()

TIMEOUT = 10.0  # seconds that a scheduler has to answer
SECONDS_BETWEEN_CHECKS = 5.0  # seconds between checks that all requested workers are there

# How long a worker may be silent before the scheduler drops it; by default, five minutes.
WORKER_TTL = "distributed.scheduler.worker-ttl"

# The overhead of local workers. By default they spend a tenth of a CPU on monitoring themselves,
# mostly on a profile with a sample every hundredth of a second, and return memory so eagerly that a
# sixth of their time goes into allocating it again.
UPKEEP = {
    "distributed.admin.system-monitor.interval": "1s",
    "distributed.admin.tick.interval": "200ms",
    "distributed.admin.log-length": 1000,  # log lines that a scheduler in this process keeps
    # Of many logs; one is a worker's profiles, a tree for each second, which fill up slowly.
    "distributed.admin.low-level-log-length": 100,
    "distributed.worker.profile.interval": "100ms",
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 2**26,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 2**25,
}


# Where users may have said what Dask is to log.
LOGGING = tuple(
    f"{section}{key}"
    for section in ("distributed.", "")
    for key in ("logging", "logging-file-config")
)


@contextmanager
def connect(
    cluster: ClusterOptions | None = None, scheduler: str | None = None, dask_logs: bool = False
) -> Iterator[Client]:
    """Yield a client of the scheduler at `scheduler`; without one, of the cluster that `cluster`
    describes, of the scheduler at DASK_SCHEDULER_ADDRESS, or of a new cluster on this machine.

    A new cluster on this machine logs to standard error only if `dask_logs` is set, or if Dask's
    own configuration says what to log: what makes a job fail is raised here.

    Closes only what it started. Raises SchedulerError within seconds if no cluster can be reached
    or started.
    """
    named = cluster or ClusterOptions()
    security = _security(named.security)
    if scheduler is not None:
        address: str | None = scheduler
    elif named.scheduler_file is not None:
        address = _read_address(named.scheduler_file)
    elif cluster is not None:
        address = named.address
    else:
        address = os.environ.get("DASK_SCHEDULER_ADDRESS") or None

    make_client = load_dask().Client
    if address is not None:
        _check_scheduler(address, security)
        with _closing(make_client(address, timeout=TIMEOUT, security=security)) as client:
            yield client
    else:
        with (
            _started(named, security, dask_logs) as started,
            _closing(make_client(started)) as client,
        ):
            yield client


def load_dask() -> Any:
    """Import Dask when it is needed; its functions have no types."""
    import distributed

    return distributed


def check_client(client: Any) -> None:
    """Check that what a caller passes as a client is one, or None."""
    if client is None:
        return
    is_client = isinstance(client, load_dask().Client)
    if not is_client or client.asynchronous:
        kind = "an asynchronous one" if is_client else type(client).__name__
        raise InputError(f"client must be a Client of dask.distributed, got {kind}")


@contextmanager
def connect_to_threads() -> Iterator[Client]:
    """Yield a client of threads in this process: scripts need no `__main__` guard, and kernels run
    in parallel."""
    if _processes_with_threads - {os.getpid()}:
        raise SchedulerError(
            "Dask must not be used in a process that was forked from one that has used it, as its"
            " threads are gone: start processes with the method spawn"
        )
    _processes_with_threads.add(os.getpid())
    dask = load_dask()
    with (
        dask.LocalCluster(
            n_workers=1,
            processes=False,
            dashboard_address="127.0.0.1:0",
            memory_limit=0,
            **_silence(),
        ) as cluster,
        dask.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@contextmanager
def _closing(client: Any) -> Iterator[Client]:
    """Close the client, without what it logs if its scheduler is gone: a sentence of ours says
    that."""
    loggers = [logging.getLogger(f"distributed.{name}") for name in ("batched", "client")]
    for logger in loggers:
        logger.addFilter(_is_news)
    try:
        yield client
    finally:
        for logger in loggers:
            logger.removeFilter(_is_news)
        levels = [logger.level for logger in loggers]
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        try:
            client.close()
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


def _is_news(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith(
        ("Failed to reconnect to scheduler", "Batched Comm Closed")
    )


def _security(files: TlsFiles | None) -> Any:
    if files is None:
        return None
    roles = ("client", "scheduler", "worker")
    return load_dask().Security(
        require_encryption=True,
        tls_ca_file=files.ca,
        **{f"tls_{role}_cert": files.cert for role in roles},
        **{f"tls_{role}_key": files.key for role in roles},
    )


def _read_address(path: str) -> str:
    """Return the address in a scheduler file."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SchedulerError(
            f"A scheduler file must be readable, got {path}: {error.strerror}"
        ) from None
    except (ValueError, RecursionError):
        content = None
    address = content.get("address") if isinstance(content, dict) else None
    if not isinstance(address, str):
        raise SchedulerError(
            f"A scheduler file must be JSON with the key address, as a Dask scheduler writes it,"
            f" got {path}"
        )
    return address


def _check_scheduler(address: str, security: Any) -> None:
    """Check that a scheduler answers: at some addresses a client would wait forever."""
    try:
        arguments = security.get_connection_args("client") if security is not None else None
        identity = _wait_for(_ask_identity(address, arguments))
    except Exception as error:
        # Dask raises many kinds of errors for a wrong address, even TypeError.
        reason = _explain(error)
    else:
        if identity.get("type") == "Scheduler":
            return
        reason = f"a {identity.get('type')} answered"
    raise SchedulerError(
        f"A Dask scheduler must answer at its address, got {address}: {reason}"
    ) from None


def _wait_for(question: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    """Return the answer, awaited in another thread: a notebook has an event loop in this one, and a
    request to stop must not wait for a silent scheduler."""
    answers: SimpleQueue[dict[str, Any] | BaseException] = SimpleQueue()

    def ask() -> None:
        try:
            answers.put(asyncio.run(question))
        except BaseException as error:
            answers.put(error)

    Thread(target=ask, name="atd-dask-scheduler-check", daemon=True).start()
    answer = answers.get()
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _explain(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, (TimeoutError, asyncio.CancelledError)):
        return f"no answer within {TIMEOUT:g} seconds"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


async def _ask_identity(address: str, connection_args: dict[str, Any] | None) -> dict[str, Any]:
    remote = load_dask().rpc(address, timeout=TIMEOUT, connection_args=connection_args)
    try:
        # A little longer than the timeout of the connection, whose error says more.
        answer: dict[str, Any] = await asyncio.wait_for(remote.identity(), TIMEOUT + 1)
        return answer
    finally:
        await remote.close_rpc()


@contextmanager
def _started(cluster: ClusterOptions, security: Any, dask_logs: bool) -> Iterator[Any]:
    """Start a cluster of the given class, or one on this machine."""
    if cluster.class_ is None:
        name, make, kwargs = "on this machine", *_local(cluster.local or LocalOptions())
    else:
        name, make, kwargs = cluster.class_, _find_class(cluster.class_), dict(cluster.kwargs)
    if security is not None:
        kwargs["security"] = security
    if not dask_logs and "silence_logs" in inspect.signature(make).parameters:
        kwargs = _silence() | kwargs
    with ExitStack() as stack:
        try:
            with block_sigint(), _settings(cluster):
                started = make(**kwargs)
            stack.enter_context(started)
            if cluster.adapt is not None:
                started.adapt(**cluster.adapt)
            stack.enter_context(_replacing_workers(started))
        except Exception as error:
            # Whatever the user's cluster class raises is a mistake in the configuration.
            raise SchedulerError(f"The Dask cluster {name} cannot be started: {error}") from error
        yield started


def _silence() -> dict[str, Any]:
    """Return what keeps a cluster that starts processes here from logging to standard error, where
    it would repeat with tracebacks what we say in a sentence; nothing if the user has said what to
    log."""
    from dask import config

    is_set = any(config.get(key, None) is not None for key in LOGGING)
    return {} if is_set else {"silence_logs": logging.CRITICAL}


@contextmanager
def _settings(cluster: ClusterOptions) -> Iterator[None]:
    """Replace Dask's defaults during the block; values set by the user stay."""
    from dask import config

    ours: dict[str, object] = {WORKER_TTL: f"{cluster.worker_timeout:g}s"}
    if cluster.class_ is None:
        ours |= UPKEEP
    defaults = config.merge(*config.defaults)
    unset = [key for key in ours if config.get(key, None) == config.get(key, None, config=defaults)]
    with config.set({key: ours[key] for key in unset}):
        yield


@contextmanager
def _replacing_workers(cluster: Any) -> Iterator[None]:
    """Restart lost workers during the block, such as those whose batch job has ended. Dask counts
    them as running, even with `adapt`, until it is asked to scale."""
    kind = load_dask().SpecCluster
    if not isinstance(cluster, kind):
        yield
        return
    ended = Event()

    def ask() -> None:
        if not ended.is_set():
            # Subclasses may count differently: in processes, while an entry is a job.
            kind.scale(cluster, len(cluster.worker_spec))

    def check() -> None:
        while not ended.wait(SECONDS_BETWEEN_CHECKS):
            # In the cluster's own thread, where the number cannot change meanwhile.
            cluster.loop.add_callback(ask)

    thread = Thread(target=check, name="atd-dask-workers", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def block_sigint() -> Iterator[None]:
    """Keep Ctrl-C from the processes that are started in the block, and from those that they
    restart.

    A terminal sends it to all of them, but only this process should react, and stop the others in
    an orderly way. Processes and threads inherit the mask of blocked signals.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # Python unblocks the signal when it starts the tracker, so start it first.
    _run_tracker()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _local(options: LocalOptions) -> tuple[Any, dict[str, Any]]:
    from dask.system import CPU_COUNT

    workers = CPU_COUNT if options.workers == "auto" else options.workers
    threads = max(1, CPU_COUNT // workers) if options.threads == "auto" else options.threads
    return load_dask().LocalCluster, {
        "n_workers": workers,
        "threads_per_worker": threads,
        "memory_limit": options.memory_limit,
        "processes": True,
        "dashboard_address": "127.0.0.1:0",
    }


def _run_tracker() -> None:
    """Start Python's resource tracker without its warnings. It would warn about whatever is left by
    a worker that must be killed because it is busy when a run is stopped."""
    from multiprocessing import resource_tracker

    before = os.environ.get("PYTHONWARNINGS")
    quiet = "ignore::UserWarning:multiprocessing.resource_tracker"
    os.environ["PYTHONWARNINGS"] = f"{before},{quiet}" if before else quiet
    try:
        resource_tracker.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONWARNINGS"]
        else:
            os.environ["PYTHONWARNINGS"] = before


@contextmanager
def keep_handlers() -> Iterator[None]:
    """Restore the signal handlers after the block, whatever is imported in it."""
    if current_thread() is not main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _find_class(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    try:
        with keep_handlers():  # some packages replace them, such as dask-jobqueue
            found = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # importing runs the user's code
        raise SchedulerError(
            f"cluster.class must name a class that can be imported, got {name}: {error}"
        ) from error
    if not (isinstance(found, type) and issubclass(found, load_dask().deploy.Cluster)):
        raise SchedulerError(
            f"cluster.class must name a subclass of distributed.deploy.Cluster, got {name}"
        )
    return found
