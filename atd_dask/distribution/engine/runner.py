"""Runs pieces of work on a cluster or in this process; the code that uses it need not know
which."""

from __future__ import annotations

import math
import pickle
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import getitem
from typing import TYPE_CHECKING, Any

from atd_dask.distribution.engine.alignment import align, align_arrays
from atd_dask.distribution.engine.keys import task_key

if TYPE_CHECKING:
    from distributed import Client, Future

TASKS_PER_THREAD = 3
BATCHES = 3  # under way: while one is awaited, the workers have the others
PIECE_BYTES = 2**22  # of one message; the scheduler does nothing else while it reads one
LITTLE_BYTES = 2**12  # that go along with every task
SECONDS_BETWEEN_COUNTS = 1.0  # of the threads of the cluster
NOWHERE = ""  # the home of what may be anywhere


@dataclass(frozen=True)
class RemoteResults:
    """Results that stay where they were computed. On a cluster they are results of tasks, which
    Dask recomputes if a worker that had them is lost."""

    results: Sequence[Any]
    shared: Any
    homes: Sequence[str] = ()  # the workers that should have them, if any are preferred


def share_out(n_pieces: int, n_threads: int) -> list[int]:
    """Return which thread takes each piece: all about as many, and neighbours together, so that
    most sums of neighbours need nothing from another worker."""
    left = range(n_pieces - 1, -1, -1)
    return [n_threads - 1 - number * n_threads // n_pieces for number in left]


def split_by_size(rows: Sequence[Sequence[Any]], most: int) -> Iterator[list[Sequence[Any]]]:
    """Yield rows in order, together up to about so many bytes; a larger one by itself."""
    from dask.sizeof import sizeof

    some: list[Sequence[Any]] = []
    n_bytes = 0
    for row in rows:
        mine = sizeof(tuple(row))
        if some and n_bytes + mine > most:
            yield some
            some, n_bytes = [], 0
        some.append(row)
        n_bytes += mine
    if some:
        yield some


@dataclass(frozen=True)
class Runner:
    """Runs independent pieces on a cluster or in this process."""

    client: Client | None = None

    def map(
        self, step: Callable[..., Any], shared: Any, pieces: Iterable[Any]
    ) -> Generator[Any, None, None]:
        """Yield step(shared, piece) for every piece, in order, with a bound on the tasks under way.
        Closing the generator cancels outstanding tasks."""
        if self.client is None:
            for piece in pieces:
                yield step(shared, piece)
            return
        held = self._hold(step, shared)
        under_way: deque[Future[Any]] = deque()
        submitted = (self._submit(step, number, held, piece) for number, piece in enumerate(pieces))
        try:
            for _ in self._fill(under_way, submitted):
                yield under_way.popleft().result()
        finally:
            self.client.cancel([held, *under_way])

    def hold_each(
        self,
        step: Callable[..., Any],
        summarise: Callable[[Any], Any],
        shared: Any,
        rows: Iterable[Sequence[Any]],
        priority: int = 0,
        spread: bool = False,
    ) -> Generator[tuple[Any, Any], None, None]:
        """Compute step(shared, *row) for every row, and leave the result where it is computed;
        yield its handle and summarise(result), in order, with a bound on the tasks under way. Rows
        may have handles too. With `spread`, all threads have as many results of a batch."""
        if self.client is None:
            for row in rows:
                result = step(shared, *row)
                yield result, summarise(result)
            return
        # Tasks are drawn to where their arguments are: the first ones would all go to one worker.
        held = shared if _is_little(shared) else self._hold(step, shared)

        def submit(some: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            homes = self.list_homes(len(some)) if spread else ()
            rows = [(held, *row) for row in some]
            kept = self._submit_all(step, rows, homes, priority=priority)
            summaries = self._submit_all(summarise, [(one,) for one in kept], priority=priority + 1)
            return kept, summaries

        yield from self._stream(submit, rows)

    def combine(
        self,
        step: Callable[..., Any],
        shared: Any,
        questions: Iterable[tuple[Sequence[Any], Any]],
        at_least: int = 0,
    ) -> Generator[Any, None, None]:
        """Yield step(results, shared, question) for every question and the handles that come with
        it, in order, with a bound on the tasks under way. Answers that are small may be bounded by
        `at_least`, however few threads there are."""
        if self.client is None:
            for handles, question in questions:
                yield step(handles, shared, question)
            return
        held = self._hold(step, shared)

        def submit(some: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            rows = [(list(handles), held, question) for handles, question in some]
            # Tasks that somebody waits for come before those in the queue.
            return [None] * len(rows), self._submit_all(step, rows, priority=1 if at_least else 0)

        for _, answer in self._stream(submit, questions, at_least):
            yield answer

    def _stream(
        self,
        submit: Callable[[Sequence[Any]], tuple[list[Any], list[Any]]],
        pieces: Iterable[Any],
        at_least: int = 0,
    ) -> Generator[tuple[Any, Any], None, None]:
        """Yield what `submit` returns for every piece, a handle and the result of a future, in
        order. Tasks are submitted and gathered in batches, a few of which are under way: one by
        one, each costs the client and the scheduler three times as much."""
        assert self.client is not None
        rest = iter(pieces)
        under_way: deque[tuple[list[Any], list[Any]]] = deque()
        n_pieces, counted = 0, -math.inf

        def fill() -> None:
            nonlocal n_pieces, counted
            if time.monotonic() - counted >= SECONDS_BETWEEN_COUNTS:
                n_threads = self.count_threads()
                n_pieces = max(at_least, TASKS_PER_THREAD * n_threads) // 2
                n_pieces = -(-n_pieces // n_threads) * n_threads  # as many for each
                counted = time.monotonic()
            while len(under_way) < BATCHES and (some := list(islice(rest, n_pieces))):
                under_way.append(submit(some))

        try:
            fill()
            while under_way:
                handles, futures = under_way[0]
                results = self.client.gather(futures)
                under_way.popleft()
                del futures
                fill()  # before anything is done with the results, so that workers have work
                yield from zip(handles, results, strict=True)
        finally:
            self.client.cancel([f for two in under_way for some in two for f in some if f])

    def derive(
        self,
        step: Callable[..., Any],
        handle: Any,
        *others: Any,
        priority: int = 0,
    ) -> Any:
        """Compute step(result, *others) where the result is, leave it there, and return its handle.
        The others may be handles too, and any of them lists of handles."""
        if self.client is None:
            return step(handle, *others)
        return self._submit(step, 0, handle, *others, priority=priority)

    def derive_all(
        self,
        rows: Sequence[tuple[Callable[..., Any], *tuple[Any, ...]]],
        homes: Sequence[str] = (),
        priority: int = 0,
    ) -> list[Any]:
        """Like `derive`, for several steps, each with a result and its other arguments. They may
        have homes, where they are computed unless these are lost or others are idle."""
        if self.client is None:
            return [step(*given) for step, *given in rows]
        calls = [(step, given) for step, *given in rows]
        names = [_name(step) for step, _ in calls]
        return self._submit_all(call, calls, homes, names, priority=priority)

    def send(self, value: Any) -> Any:
        """Send a value, and return its handle."""
        return value if self.client is None else self._hold(hold, value)

    def wait(self, handles: Sequence[Any]) -> None:
        """Wait until these are computed, or have failed."""
        if self.client is not None:
            from distributed import wait

            wait(handles)

    def fetch(self, handle: Any) -> Any:
        """Return what a handle stands for."""
        return handle if self.client is None else align_arrays(handle.result())

    def _fill(self, under_way: deque[Any], submitted: Iterator[Any]) -> Iterator[None]:
        """Keep as many tasks under way as the cluster has room for; yield while there are any."""
        most, counted = 0, -math.inf
        while True:
            if time.monotonic() - counted >= SECONDS_BETWEEN_COUNTS:
                most, counted = self.count_slots(), time.monotonic()
            for future in submitted:
                under_way.append(future)
                if len(under_way) >= most:
                    break
            if not under_way:
                return
            yield

    def keep(
        self,
        step: Callable[..., Any],
        shared: Any,
        pieces: Sequence[Any],
        spread: bool = False,
    ) -> RemoteResults:
        """Compute step(shared, piece) for every piece, and keep the results on the workers. With
        `spread`, they are shared out among all threads: they should take about as long."""
        if self.client is None:
            return RemoteResults([step(shared, piece) for piece in pieces], shared)
        held = self._hold(step, shared)
        homes = self.list_homes(len(pieces)) if spread else ()
        futures = self._submit_all(step, [(held, piece) for piece in pieces], homes)
        return RemoteResults(futures, held, homes)

    def remake(self, value: Any, step: Callable[..., Any], shared: Any) -> RemoteResults:
        """Keep a value on the workers, where step(shared, None) makes it again: for a large value
        that is made from little, such as documents in a store. Without a cluster it is the value
        itself."""
        if self.client is None:
            return RemoteResults([value], None)
        return self.keep(step, shared, [None])

    def keep_all(
        self, step: Callable[..., Any], kept: RemoteResults, shared: Any, *others: RemoteResults
    ) -> RemoteResults:
        """Compute step(result, shared, *others) for all kept results, and keep these results too.
        `others` are kept results that are passed along one by one. What a result was made from need
        not be kept. They are computed where the first ones should be, even if others are near."""
        rows = list(zip(kept.results, *(other.results for other in others), strict=True))
        if self.client is None:
            return RemoteResults([step(row[0], shared, *row[1:]) for row in rows], shared)
        little = _is_little(shared)
        held = shared if little else self._hold(step, shared)
        futures = self._submit_all(step, [(row[0], held, *row[1:]) for row in rows], kept.homes)
        return RemoteResults(futures, None if little else held, kept.homes)

    def reduce(
        self,
        step: Callable[..., Any],
        kept: RemoteResults,
        shared: Any,
        n_branches: int,
        most: int = 1,
    ) -> RemoteResults:
        """Combine neighbouring results, step(results, shared) of several at a time, until at most
        so many are left: those with the same home first. So which are combined depends on the
        cluster, and what is combined must not."""
        handles = list(kept.results)
        homes = list(kept.homes or [NOWHERE] * len(handles))
        while len(handles) > most:
            groups = _find_neighbours(homes, n_branches)
            several = [some for some in groups if some.stop - some.start > 1]
            rows = [(step, handles[some], shared) for some in several]
            # Adding results up frees memory, so it comes first.
            sums = self.derive_all(rows, [homes[some.start] for some in several], priority=1)
            for some, total in zip(several, sums, strict=True):
                handles[some.start] = total
            handles = [handles[some.start] for some in groups]
            homes = [homes[some.start] for some in groups]
        return RemoteResults(handles, None, homes)

    def ask_all(
        self, step: Callable[..., Any], kept: RemoteResults, shared: Any, questions: Sequence[Any]
    ) -> list[Any]:
        """Return step(result, shared, question) for all kept results, with a question for each."""
        if self.client is None:
            pairs = zip(kept.results, questions, strict=True)
            return [step(result, shared, question) for result, question in pairs]
        held = self._hold(step, shared)
        futures = [
            self._submit(step, number, result, held, question)
            for number, (result, question) in enumerate(zip(kept.results, questions, strict=True))
        ]
        return self._gather(futures, held)

    def ask(
        self, step: Callable[..., Any], kept: RemoteResults, questions: Iterable[tuple[int, Any]]
    ) -> list[Any]:
        """Return step(result, question) for the kept results with these numbers, in the order of
        the questions."""
        if self.client is None:
            return [step(kept.results[number], question) for number, question in questions]
        # Tasks that somebody waits for come before those in the queue.
        futures = [
            self._submit(step, number, kept.results[number], question, priority=1)
            for number, question in questions
        ]
        return self._gather(futures)

    def drop(self, kept: RemoteResults) -> None:
        """Release kept results."""
        if self.client is not None:
            # Not cancelled: the scheduler would also cancel what was made from it, and it fails
            # if nobody needs that any more.
            for future in (*kept.results, kept.shared):
                if future is not None:
                    future.release()

    def start(
        self, step: Callable[..., Any], kept: RemoteResults, question: Any
    ) -> Callable[[], Any]:
        """Start step(result, question) for the first kept result in the background; return a
        function that waits for the answer."""
        if self.client is None:
            return lambda: step(kept.results[0], question)
        future = self._submit(step, 0, kept.results[0], question, priority=1)

        def wait() -> Any:
            try:
                return future.result()
            finally:
                future.cancel()

        return wait

    def count_threads(self) -> int:
        """Return how many tasks run at once, at least 1: a cluster may grow and shrink."""
        return 1 if self.client is None else max(sum(self.client.nthreads().values()), 1)

    def count_slots(self) -> int:
        """Return how many tasks may be under way."""
        return 1 if self.client is None else TASKS_PER_THREAD * self.count_threads()

    def _gather(self, futures: Sequence[Future[Any]], *needed: Future[Any] | None) -> list[Any]:
        assert self.client is not None
        try:
            results: list[Any] = self.client.gather(futures)
        finally:
            self.client.cancel([*futures, *needed])
        return results

    def list_homes(self, n_pieces: int) -> list[str]:
        """Return a worker for each piece, if there are any: all threads have about as many."""
        counts = {} if self.client is None else self.client.nthreads()
        threads = [name for name, n in sorted(counts.items()) for _ in range(n)] or [NOWHERE]
        return [threads[index] for index in share_out(n_pieces, len(threads))]

    def _hold(self, step: Callable[..., Any], shared: Any) -> Future[Any] | None:
        """Return the handle of a value that many tasks need; nothing needs none. A task may run
        where any of its arguments is, so such a handle would draw it away from the others."""
        assert self.client is not None
        if shared is None:
            return None
        key = task_key(f"hold-for-{_name(step)}")
        packed = pickle.dumps(shared, pickle.HIGHEST_PROTOCOL)
        if len(packed) <= PIECE_BYTES:
            return self.client.submit(hold, shared, key=key, pure=False)
        # Not scattered: scattered data is lost with its worker, and no task could recompute it.
        pieces = [
            self._submit(hold, number, packed[start : start + PIECE_BYTES])
            for number, start in enumerate(range(0, len(packed), PIECE_BYTES))
        ]
        return self.client.submit(join, pieces, key=key, pure=False)

    def _submit(
        self, step: Callable[..., Any], number: int, *arguments: Any, **options: Any
    ) -> Future[Any]:
        """Submit a task."""
        assert self.client is not None
        key = task_key(_name(step), number)
        return self.client.submit(step, *arguments, key=key, pure=False, **options)

    def _submit_all(
        self,
        step: Callable[..., Any],
        rows: Sequence[Sequence[Any]],
        homes: Sequence[str] = (),
        names: Sequence[str] = (),
        **options: Any,
    ) -> list[Future[Any]]:
        """Submit step(*row) for all rows, in one graph, or in several if they are large. Tasks may
        have a home each, and names of their own."""
        from dask.base import annotate

        assert self.client is not None
        names = names or [_name(step)] * len(rows)
        futures: list[Future[Any]] = []
        for some in split_by_size(rows, PIECE_BYTES):
            numbers = range(len(futures), len(futures) + len(some))
            keys = [task_key(names[number], number) for number in numbers]
            columns = [list(column) for column in zip(*some, strict=True)]
            mine = {key: [home] for key, home in zip(keys, homes[numbers.start :], strict=False)}
            # A scheduler looks the homes up, and knows no function but those of its own packages.
            preferred = {"workers": partial(getitem, mine), "allow_other_workers": True}
            with annotate(**preferred) if any(homes) else nullcontext():
                futures += self.client.map(step, *columns, key=keys, pure=False, **options)
        return futures


def run_on_workers(client: Client, step: Callable[[], Any]) -> None:
    """Run step() once on every current worker."""
    client.run(step)


def _find_neighbours(homes: Sequence[str], most: int) -> list[slice]:
    """Group neighbours, at most so many: those with the same home, if any have."""
    near = len(set(homes)) < len(homes)
    groups: list[slice] = []
    for index, home in enumerate(homes):
        last = groups[-1] if groups else None
        if last and index - last.start < most and (home == homes[last.start] or not near):
            groups[-1] = slice(last.start, index + 1)
        else:
            groups.append(slice(index, index + 1))
    return groups


def _is_little(value: Any) -> bool:
    """Return whether a value can go along with every task: small, and without arrays, which would
    arrive unaligned."""
    buffers: list[pickle.PickleBuffer] = []
    packed = pickle.dumps(value, pickle.HIGHEST_PROTOCOL, buffer_callback=buffers.append)
    return not buffers and len(packed) <= LITTLE_BYTES


def _name(step: Callable[..., Any]) -> str:
    return step.__name__.replace("_", "-")


def call(step: Callable[..., Any], given: Sequence[Any]) -> Any:
    return step(*given)


def hold(value: Any, _: Any = None) -> Any:
    """Return a value as the result of a task, which Dask recomputes if its worker is lost."""
    return align(value)


def join(pieces: Sequence[bytes]) -> Any:
    """Return a value that was sent in pieces."""
    return pickle.loads(b"".join(pieces))  # noqa: S301  packed here
