"""Finds the donors of a cluster's documents in the shards of a large pool.

If most documents have a single topic, very many are equally similar to another document on that
topic. So documents share lists of donors, and only the words of donors that are drawn are fetched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from atd_dask.kernels.bootstrap import choose_donor, choose_similar, similarities
from atd_dask.kernels.fitting import Fit
from atd_dask.kernels.jit import kernel
from atd_dask.kernels.model import Floats, Ints
from atd_dask.kernels.philox import draw_block


@dataclass(frozen=True, slots=True)
class Similar:
    """Documents of a shard that may be among the most similar, in ascending order."""

    rows: Ints
    similarities: Floats

    @classmethod
    def concatenate(cls, parts: Sequence[Similar]) -> Similar:
        return cls(
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.similarities for part in parts]),
        )

    def nearest(self, nearest: int) -> Similar:
        chosen = choose_similar(self.similarities, nearest)
        return Similar(self.rows[chosen], self.similarities[chosen])


def find_similar(
    fit: Fit, usable: NDArray[np.bool_], theta: Floats, nearest: int, start: int
) -> list[Similar]:
    """Return the possible donors in a shard for each row of `theta` (queries × topics), numbered
    from `start` on."""
    rows = np.arange(start, start + len(usable))
    found = []
    for query in theta:
        similar = similarities(*fit.proportions.arrays, query)
        similar[~usable | (fit.lengths == 0)] = -1.0
        found.append(Similar(rows, similar).nearest(nearest))
    return found


@kernel
def _choose(list_of, indptr, donors, n_pool, once, key, replicate):
    used = np.zeros(n_pool, np.bool_)
    draws = np.zeros(4, np.uint64)
    chosen = np.zeros(len(list_of), np.int64)
    for d in range(len(list_of)):
        draw_block(key, replicate, np.int64(d), np.int64(0), draws)
        mine = donors[indptr[list_of[d]] : indptr[list_of[d] + 1]]
        chosen[d] = choose_donor(mine, used, once, draws[0])
        used[chosen[d]] = True
    return chosen


@dataclass(frozen=True)
class DonorLists:
    """The possible donors of the documents of a cluster, as rows of a pool of `n_pool`."""

    list_of: Ints  # documents of the cluster: the index of their list
    indptr: Ints  # lists + 1
    donors: Ints
    n_pool: int

    @classmethod
    def of(cls, list_of: Ints, lists: Sequence[Ints], n_pool: int) -> DonorLists:
        ends = np.concatenate(([0], np.cumsum([len(rows) for rows in lists])))
        return cls(list_of, ends, np.concatenate(lists), n_pool)

    @property
    def is_possible(self) -> bool:
        """Whether every document of the cluster has a donor."""
        return bool(np.all(np.diff(self.indptr) > 0))

    @property
    def largest(self) -> int:
        """The largest number of documents of the cluster that share their only donor."""
        alone = self.list_of[np.diff(self.indptr)[self.list_of] == 1]
        _, sizes = np.unique(self.donors[self.indptr[alone]], return_counts=True)
        return int(sizes.max(initial=0))

    def choose(self, once: bool, key: np.uint64, replicate: int) -> Ints:
        """Choose the donor of each document in the bootstrap cluster of a replicate."""
        chosen: Ints = _choose(
            self.list_of, self.indptr, self.donors, self.n_pool, once, key, replicate
        )
        return chosen
