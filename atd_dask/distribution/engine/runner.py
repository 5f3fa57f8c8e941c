"""Running pieces of work on a cluster, or here: what does not know which of both it is."""

from __future__ import annotations

import math
import pickle
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from atd_dask.distribution.engine.keys import task_key

if TYPE_CHECKING:
    from distributed import Client, Future

TASKS_PER_THREAD = 3
PIECE_BYTES = 2**22  # of one message: the scheduler does nothing else while it reads one
SECONDS_BETWEEN_COUNTS = 1.0  # of the threads of a cluster


@dataclass(frozen=True)
class RemoteResults:
    """Results that stay where they were made. On a cluster they are results of tasks, which Dask
    makes again when the worker that had them is gone."""

    results: Sequence[Any]
    shared: Any


@dataclass(frozen=True)
class Runner:
    """Runs independent pieces on a cluster, or here."""

    client: Client | None = None

    def map(
        self, step: Callable[..., Any], shared: Any, pieces: Iterable[Any]
    ) -> Generator[Any, None, None]:
        """step(shared, piece) for every piece, in order, with a bound on those under way. Closed
        early, it cancels what is outstanding."""
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
        pieces: Iterable[Any],
    ) -> Generator[tuple[Any, Any], None, None]:
        """step(shared, piece) for every piece, which stays where it is made: its handle, with
        summarise(result), in order and with a bound on those under way."""
        if self.client is None:
            for piece in pieces:
                result = step(shared, piece)
                yield result, summarise(result)
            return
        held = self._hold(step, shared)

        def submit(number: int, piece: Any) -> tuple[Future[Any], Future[Any]]:
            kept = self._submit(step, number, held, piece)
            return kept, self._submit(summarise, number, kept, priority=1)

        under_way: deque[tuple[Future[Any], Future[Any]]] = deque()
        try:
            for _ in self._fill(under_way, (submit(*given) for given in enumerate(pieces))):
                kept, summary = under_way.popleft()
                yield kept, summary.result()
        finally:
            self.client.cancel([future for two in under_way for future in two])

    def combine(
        self,
        step: Callable[..., Any],
        shared: Any,
        questions: Iterable[tuple[Sequence[Any], Any]],
    ) -> Generator[Any, None, None]:
        """step(results, shared, question) for every question and the results whose handles come
        with it, in order and with a bound on those under way."""
        if self.client is None:
            for handles, question in questions:
                yield step(handles, shared, question)
            return
        held = self._hold(step, shared)
        submitted = (
            self._submit(step, number, list(handles), held, question)
            for number, (handles, question) in enumerate(questions)
        )
        under_way: deque[Future[Any]] = deque()
        try:
            for _ in self._fill(under_way, submitted):
                yield under_way.popleft().result()
        finally:
            self.client.cancel([held, *under_way])

    def derive(self, step: Callable[..., Any], handle: Any, question: Any) -> Any:
        """The handle of step(result, question), which is made and stays where the result is."""
        if self.client is None:
            return step(handle, question)
        return self._submit(step, 0, handle, question)

    def _fill(self, under_way: deque[Any], submitted: Iterator[Any]) -> Iterator[None]:
        """Keeps as many under way as the cluster has room for; yields while there are any."""
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

    def keep(self, step: Callable[..., Any], shared: Any, pieces: Sequence[Any]) -> RemoteResults:
        """step(shared, piece) for every piece, whose results are to be asked."""
        if self.client is None:
            return RemoteResults([step(shared, piece) for piece in pieces], shared)
        held = self._hold(step, shared)
        futures = [self._submit(step, number, held, piece) for number, piece in enumerate(pieces)]
        return RemoteResults(futures, held)

    def keep_all(
        self, step: Callable[..., Any], kept: RemoteResults, shared: Any, *others: RemoteResults
    ) -> RemoteResults:
        """step(result, shared, *others) for all of the kept results, and kept like them; `others`
        are results that go with them, one by one. What a result was made from need not be kept."""
        rows = list(zip(kept.results, *(other.results for other in others), strict=True))
        if self.client is None:
            return RemoteResults([step(row[0], shared, *row[1:]) for row in rows], shared)
        held = self._hold(step, shared)
        futures = [
            self._submit(step, number, row[0], held, *row[1:]) for number, row in enumerate(rows)
        ]
        return RemoteResults(futures, held)

    def reduce(
        self, step: Callable[..., Any], kept: RemoteResults, shared: Any, n_branches: int
    ) -> Any:
        """All of the kept results made one: step(results, shared) of so many in a row, then of
        what these give, and so on. The tree depends on the number of the results alone; on a
        cluster only its root comes here."""
        level = list(kept.results)
        while len(level) > 1:
            groups = [level[n : n + n_branches] for n in range(0, len(level), n_branches)]
            if self.client is None:
                level = [step(group, shared) for group in groups]
            else:
                # What is added frees memory.
                level = [
                    self._submit(step, number, group, shared, priority=1)
                    for number, group in enumerate(groups)
                ]
        return level[0] if self.client is None else level[0].result()

    def ask_all(
        self, step: Callable[..., Any], kept: RemoteResults, shared: Any, questions: Sequence[Any]
    ) -> list[Any]:
        """step(result, shared, question) for all of the kept results, a question each."""
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
        """step(result, question) for some of the kept results, which are named by their numbers;
        the answers come in the order of the questions."""
        if self.client is None:
            return [step(kept.results[number], question) for number, question in questions]
        # What waits for an answer goes before what only waits for its turn.
        futures = [
            self._submit(step, number, kept.results[number], question, priority=1)
            for number, question in questions
        ]
        return self._gather(futures)

    def drop(self, kept: RemoteResults) -> None:
        """What was kept is not needed any more."""
        if self.client is not None:
            # Not cancelled: the scheduler would also cancel what was made from it, and fails where
            # nobody wants that any more.
            for future in (*kept.results, kept.shared):
                future.release()

    def start(
        self, step: Callable[..., Any], kept: RemoteResults, question: Any
    ) -> Callable[[], Any]:
        """Starts step(result, question) for the first of the kept results, beside what is done
        here; gives the function that waits for the answer."""
        if self.client is None:
            return lambda: step(kept.results[0], question)
        future = self._submit(step, 0, kept.results[0], question, priority=1)

        def wait() -> Any:
            try:
                return future.result()
            finally:
                future.cancel()

        return wait

    def count_slots(self) -> int:
        """How many tasks may be under way: a cluster may grow and shrink."""
        if self.client is None:
            return 1
        threads: int = sum(self.client.nthreads().values())
        return TASKS_PER_THREAD * max(threads, 1)

    def _gather(self, futures: Sequence[Future[Any]], *needed: Future[Any]) -> list[Any]:
        assert self.client is not None
        try:
            results: list[Any] = self.client.gather(futures)
        finally:
            self.client.cancel([*futures, *needed])
        return results

    def _hold(self, step: Callable[..., Any], shared: Any) -> Future[Any]:
        assert self.client is not None
        key = task_key(f"hold-for-{_name(step)}")
        packed = pickle.dumps(shared, pickle.HIGHEST_PROTOCOL)
        if len(packed) <= PIECE_BYTES:
            return self.client.submit(hold, shared, key=key, pure=False)
        # Not scattered: what a worker was given is lost with it, and no task could make it again.
        pieces = [
            self._submit(hold, number, packed[start : start + PIECE_BYTES])
            for number, start in enumerate(range(0, len(packed), PIECE_BYTES))
        ]
        return self.client.submit(join, pieces, key=key, pure=False)

    def _submit(
        self, step: Callable[..., Any], number: int, *arguments: Any, **options: Any
    ) -> Future[Any]:
        assert self.client is not None
        key = task_key(_name(step), number)
        return self.client.submit(step, *arguments, key=key, pure=False, **options)


def run_on_workers(client: Client, step: Callable[[], Any]) -> None:
    """Runs step() once on every worker that is there."""
    client.run(step)


def _name(step: Callable[..., Any]) -> str:
    return step.__name__.replace("_", "-")


def hold(value: Any, _: Any = None) -> Any:
    """A value as the result of a task, which Dask makes again when its worker is gone."""
    return align(value)


def join(pieces: Sequence[bytes]) -> Any:
    """A value that came in pieces."""
    return pickle.loads(b"".join(pieces))  # noqa: S301  what was packed here


def align(value: Any) -> Any:
    """The same value in memory of its own. What comes over the wire stands at odd addresses there,
    and for arrays at such an address all kernels would be compiled once more."""
    return pickle.loads(pickle.dumps(value))  # noqa: S301  what came as a pickle
