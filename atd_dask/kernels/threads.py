"""Threads of this process that share the work of a pass. Kernels release the GIL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Self, TypeVar

import numpy as np

from atd_dask.kernels.model import Ints

Piece = TypeVar("Piece")
Result = TypeVar("Result")

MOST_THREADS = 256  # they are started as they are needed


class Threads:
    """Runs pieces of work at once, on as many threads as `count` allows at that moment; the thread
    that asks is one of them.

    The others end with the block of a `with` statement. Pieces are short, so nobody waits long for
    that.
    """

    def __init__(self, count: Callable[[], int] = lambda: 1) -> None:
        self.count = count
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def cut(self, indptr: Ints) -> list[tuple[int, int]]:
        """Cut rows into a part for each thread, with about as many entries; `indptr` has the number
        of entries before each row, and of all. A long row may leave fewer parts."""
        n_parts, n_rows = max(self.count(), 1), len(indptr) - 1
        shares = int(indptr[-1]) * np.arange(1, n_parts) // n_parts
        bounds = np.unique([0, *np.searchsorted(indptr, shares).tolist(), n_rows])
        return list(pairwise(bounds.tolist())) or [(0, n_rows)]

    def map(self, step: Callable[[Piece], Result], pieces: Sequence[Piece]) -> list[Result]:
        """Return step(piece) for every piece, in order."""
        n_threads = min(self.count(), len(pieces))
        if n_threads <= 1:
            return [step(piece) for piece in pieces]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(MOST_THREADS, "atd-dask-pass")
        results: dict[int, Result] = {}
        numbers = iter(range(len(pieces)))

        def work() -> None:
            for number in numbers:  # each thread takes the next one that is left
                results[number] = step(pieces[number])

        others = [self._pool.submit(work) for _ in range(n_threads - 1)]
        work()
        for other in others:
            other.result()
        return [results[number] for number in range(len(pieces))]
