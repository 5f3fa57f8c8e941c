"""Watches a job that waits for its cluster: it says what the job waits for and for how long, and
ends it after a while."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from atd_dask.distribution.engine.failures import explain_failure
from atd_dask.distribution.engine.lazy_client import LazyClient, when_open
from atd_dask.errors import ClusterError

if TYPE_CHECKING:
    from distributed import Client

Say = Callable[[str], None]

PATIENCE = 600.0  # seconds, if the configuration does not say
SECONDS_BETWEEN_LOOKS = 2.0
FIRST_WORD = 10.0  # seconds of waiting before the first message; then twice as many, and so on
ANSWER = 5.0  # seconds that a scheduler has to answer
HEARTBEAT = 10.0  # seconds without a sign of life after which a worker counts as silent

GO_ON = "run the same command again to resume"
MORE_MEMORY = (
    "give workers more memory, for a local cluster with cluster.local.memory_limit or fewer workers"
)


@dataclass(frozen=True)
class Look:
    """The state of a cluster at one moment, for a job that waits for it."""

    pending: int  # results that the job waits for
    progress: int  # changes when one of them arrives, or others are requested
    answers: bool = True  # whether the scheduler answers
    workers: int = 0
    silent: int = 0  # workers without a recent sign of life
    paused: int = 0  # workers whose memory is nearly full
    working: int = 0  # workers that are working

    def is_stuck(self) -> bool:
        """Whether no worker is working."""
        return self.pending > 0 and not self.working

    def explain(self) -> str:
        """Return what the job waits for, and what may help."""
        if not self.answers:
            return "the scheduler does not answer: check whether it is overloaded, or restart it"
        if not self.workers:
            return "the cluster has no workers: start some, or find out why none arrive"
        if self.paused == self.workers:
            return f"the memory of all {self.workers} workers is nearly full: {MORE_MEMORY}"
        if self.silent == self.workers:
            return (
                f"none of the {self.workers} workers has been heard from for {HEARTBEAT:.0f} s:"
                " check whether they are stopped or unreachable"
            )
        if not self.working:
            return f"none of the {self.workers} workers is working: check the scheduler log"
        odd = [
            f"{number} {what}"
            for number, what in ((self.silent, "silent"), (self.paused, "short of memory"))
            if number
        ]
        told = f" ({', '.join(odd)})" if odd else ""
        return f"{self.working} of {self.workers} workers{told} are working on long tasks"


class Watch:
    """Looks at a cluster from time to time; says what a job waits for, and when it has waited long
    enough."""

    def __init__(self, patience: float, say: Say, warn: Say) -> None:
        self._patience = patience
        self._say = say
        self._warn = warn
        self._progress: int | None = None
        self._since = 0.0  # the last result
        self._stuck_since: float | None = None
        self._next_word = FIRST_WORD

    def look(self, look: Look, now: float) -> str | None:
        """Take in a look; return the sentence with which the job must end, if it must."""
        if look.progress != self._progress or not look.pending:
            self._progress, self._since, self._next_word = look.progress, now, FIRST_WORD
            self._stuck_since = None
            return None
        if not look.is_stuck():
            self._stuck_since = None
        elif self._stuck_since is None:
            self._stuck_since = now
        stuck = 0.0 if self._stuck_since is None else now - self._stuck_since
        if stuck >= self._patience:
            return f"gave up after {stuck:.0f} s: {look.explain()}; then {GO_ON}"
        waited = now - self._since
        if waited >= self._next_word:
            self._next_word = 2 * waited
            told = f"no result for {waited:.0f} s: {look.explain()}"
            if self._stuck_since is None:
                self._say(told)
            else:
                left = self._patience - stuck
                told += f"; unless that changes, the job ends in {left:.0f} s and can be resumed"
                self._warn(told)
        return None


@contextmanager
def watch_cluster(
    client: Client | LazyClient, patience: float, say: Say, warn: Say
) -> Iterator[None]:
    """Watch the cluster of a client during the block, as soon as there is one. `say` is called
    about long tasks, `warn` about an idle cluster.

    Raises
    ------
    ClusterError
        Instead of Dask's errors, if no worker has worked for the job for `patience` seconds, or if
        the cluster is gone.
    """
    watcher = _Watcher(Watch(patience, say, warn))
    try:
        with when_open(client, watcher.start):
            yield
    except BaseException as error:
        if watcher.reason is not None:
            raise ClusterError(watcher.reason) from None
        explained = explain_failure(error)
        if explained is not None:
            raise explained from error
        raise
    finally:
        watcher.stop()


def wait_for_worker(client: Client, patience: float, warn: Say) -> None:
    """Wait until a cluster has a worker, at most for `patience` seconds; after some of them, say
    so."""
    start, watch = time.monotonic(), Watch(patience, warn, warn)
    seen = _Seen()
    while True:
        look = seen.look(client)
        if look.workers or not look.answers:
            return
        ends = watch.look(Look(pending=1, progress=0), time.monotonic() - start)
        if ends is not None:
            raise ClusterError(ends)
        time.sleep(min(0.2, SECONDS_BETWEEN_LOOKS))


class _Seen:
    """Remembers when each worker was last heard from, by the clock of this process."""

    def __init__(self) -> None:
        self._heard: dict[
            str, tuple[float, float]
        ] = {}  # last report of the scheduler, and when it came

    def look(self, client: Client) -> Look:
        states = [(key, state.status) for key, state in list(client.futures.items())]
        pending = sum(status == "pending" for _, status in states)
        progress = hash(frozenset(states))
        try:
            workers = _ask_workers(client)
        except Exception:  # Dask raises many kinds of errors for a silent scheduler
            return Look(pending, progress, answers=False)
        now = time.monotonic()
        silent = paused = working = 0
        for address, worker in workers.items():
            said = float(worker.get("last_seen") or 0.0)
            before = self._heard.get(address)
            if before is None or before[0] != said:
                self._heard[address] = before = (said, now)
            is_silent = now - before[1] > HEARTBEAT
            is_paused = worker.get("status") == "paused"
            silent += is_silent
            paused += is_paused
            working += not is_silent and _count_tasks(worker) > 0
        self._heard = {address: self._heard[address] for address in workers}
        return Look(pending, progress, True, len(workers), silent, paused, working)


def _ask_workers(client: Client) -> Mapping[str, Mapping[str, Any]]:
    scheduler: Any = client.scheduler

    async def ask() -> Any:
        try:
            return await scheduler.identity(n_workers=-1)
        except TypeError:  # an older Dask, which always lists all workers
            return await scheduler.identity()

    workers: Mapping[str, Mapping[str, Any]] = client.sync(ask, callback_timeout=ANSWER)["workers"]
    return workers


def _count_tasks(worker: Mapping[str, Any]) -> int:
    """Return how many tasks a worker is executing or fetching data for."""
    metrics = worker.get("metrics") or {}
    counts = metrics.get("task_counts")
    if counts is None:  # an older Dask
        return int(metrics.get("executing", 0)) + int(metrics.get("in_flight", 0))
    names = ("executing", "flight", "long-running", "fetch")
    return sum(int(counts.get(name, 0)) for name in names)


class _Watcher:
    """A thread that looks at a cluster, and interrupts the work of the thread that started it."""

    def __init__(self, watch: Watch) -> None:
        self.reason: str | None = None
        self._watch = watch
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._in_main = threading.current_thread() is threading.main_thread()

    def start(self, client: Client) -> None:
        def look() -> None:
            seen, start = _Seen(), time.monotonic()
            while not self._ended.wait(SECONDS_BETWEEN_LOOKS):
                ends = None
                with suppress(Warning):  # a Python warning may be turned into an error
                    ends = self._watch.look(seen.look(client), time.monotonic() - start)
                if ends is not None and not self._ended.is_set():
                    self.reason = ends
                    self._break_off(client)
                    return

        self._thread = threading.Thread(target=look, name="atd-dask-patience", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()

    def _break_off(self, client: Client) -> None:
        main = threading.main_thread().ident
        if self._in_main and main is not None and hasattr(signal, "pthread_kill"):
            signal.pthread_kill(main, signal.SIGINT)
        else:
            # Whoever waits for one of these is told that it was cancelled.
            for state in list(client.futures.values()):
                state.cancel()
