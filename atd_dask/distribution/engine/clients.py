"""Reaching a Dask cluster, or starting one."""

from __future__ import annotations

import asyncio
import importlib
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
from atd_dask.errors import SchedulerError

if TYPE_CHECKING:
    from distributed import Client as Client

TIMEOUT = 10.0  # seconds that a scheduler may take to answer
SECONDS_BETWEEN_CHECKS = 5.0  # of whether all workers are there that were asked for

# How long a worker may be silent until the scheduler gives it up: five minutes as Dask has it.
WORKER_TTL = "distributed.scheduler.worker-ttl"

# What the processes of a cluster on this machine do beside their work. As Dask has it, they spend a
# tenth of a CPU looking at themselves, mostly for a profile that a hundredth of a second divides,
# and give memory back so eagerly that a sixth of their time goes to asking for it again.
UPKEEP = {
    "distributed.admin.system-monitor.interval": "1s",
    "distributed.admin.tick.interval": "200ms",
    "distributed.admin.log-length": 1000,  # lines that a scheduler in this process remembers
    "distributed.worker.profile.interval": "100ms",
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 2**26,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 2**25,
}


@contextmanager
def connect(
    cluster: ClusterOptions | None = None, scheduler: str | None = None
) -> Iterator[Client]:
    """A client of the scheduler at `scheduler`, or else of the cluster that `cluster` names, or of
    the scheduler that DASK_SCHEDULER_ADDRESS names, or of a new cluster on this machine.

    What was started here is closed at the end, and nothing else. A cluster that cannot be had is
    a `SchedulerError` within seconds.
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
        with _started(named, security) as started, _closing(make_client(started)) as client:
            yield client


def load_dask() -> Any:
    """Dask's package, loaded when it is needed; its functions have no types."""
    import distributed

    return distributed


@contextmanager
def connect_to_threads() -> Iterator[Client]:
    """A client of threads in this process: a script needs no guard, and kernels run side by
    side."""
    dask = load_dask()
    with (
        dask.LocalCluster(
            n_workers=1, processes=False, dashboard_address="127.0.0.1:0", memory_limit=0
        ) as cluster,
        dask.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@contextmanager
def _closing(client: Any) -> Iterator[Client]:
    """Closes the client without the tracebacks it logs when its scheduler has gone before it."""
    try:
        yield client
    finally:
        loggers = [logging.getLogger(f"distributed.{name}") for name in ("batched", "client")]
        levels = [logger.level for logger in loggers]
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        try:
            client.close()
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


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
    """The address in a file that a Dask scheduler wrote."""
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
    """Makes sure that a scheduler answers: a client would wait for ever at some addresses."""
    try:
        arguments = security.get_connection_args("client") if security is not None else None
        identity = _wait_for(_ask_identity(address, arguments))
    except Exception as error:
        # Dask's errors for a wrong address are of many kinds, TypeError among them.
        reason = _explain(error)
    else:
        if identity.get("type") == "Scheduler":
            return
        reason = f"a {identity.get('type')} answered"
    raise SchedulerError(
        f"A Dask scheduler must answer at its address, got {address}: {reason}"
    ) from None


def _wait_for(question: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    """The answer, from a thread of its own: a notebook has a loop in this one, and a request to
    stop must not wait for a scheduler that is silent."""
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
        # A little longer than the connection may take, whose own error says more.
        answer: dict[str, Any] = await asyncio.wait_for(remote.identity(), TIMEOUT + 1)
        return answer
    finally:
        await remote.close_rpc()


@contextmanager
def _started(cluster: ClusterOptions, security: Any) -> Iterator[Any]:
    """A new cluster of the class that is named, or on this machine."""
    if cluster.class_ is None:
        name, make, kwargs = "on this machine", *_local(cluster.local or LocalOptions())
    else:
        name, make, kwargs = cluster.class_, _find_class(cluster.class_), dict(cluster.kwargs)
    if security is not None:
        kwargs["security"] = security
    with ExitStack() as stack:
        try:
            with block_sigint(), _settings(cluster):
                started = make(**kwargs)
            stack.enter_context(started)
            if cluster.adapt is not None:
                started.adapt(**cluster.adapt)
            stack.enter_context(_replacing_workers(started))
        except Exception as error:
            # Whatever a cluster of the user's choice raises, it is the choice that must be mended.
            raise SchedulerError(f"The Dask cluster {name} cannot be started: {error}") from error
        yield started


@contextmanager
def _settings(cluster: ClusterOptions) -> Iterator[None]:
    """Takes the place of Dask's own values; those that the user has set stay."""
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
    """Workers that were lost, with the jobs of a batch system for one, are started again while the
    block runs. Dask counts them as there, with `adapt` too, until it is asked for their number."""
    kind = load_dask().SpecCluster
    if not isinstance(cluster, kind):
        yield
        return
    ended = Event()

    def ask() -> None:
        if not ended.is_set():
            # Classes below this one may count otherwise: in processes, where an entry is a job.
            kind.scale(cluster, len(cluster.worker_spec))

    def check() -> None:
        while not ended.wait(SECONDS_BETWEEN_CHECKS):
            # In the cluster's own thread, where nothing changes their number meanwhile.
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
    """Keeps Ctrl-C from the processes that are started here, and from those that they restart.

    A terminal sends it to all of them. This process alone is to stop, and to stop the others in
    good order. Processes and threads inherit which signals are blocked.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # Where Python starts it, the signal is unblocked again; so it must be running before.
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
    """Starts the process in which Python tracks what processes share. It would warn of whatever a
    worker leaves that has to be killed, as one does that is busy when a run is stopped."""
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
    """Requests to stop are answered after the block as before, whatever is imported in it."""
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
        with keep_handlers():  # dask-jobqueue for one takes them over
            found = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # importing runs code of the user's choice
        raise SchedulerError(
            f"cluster.class must name a class that can be imported, got {name}: {error}"
        ) from error
    if not (isinstance(found, type) and issubclass(found, load_dask().deploy.Cluster)):
        raise SchedulerError(
            f"cluster.class must name a subclass of distributed.deploy.Cluster, got {name}, which"
            " is none"
        )
    return found
