"""The bootstrap test of a cluster: replicates as tasks, judged in order (Algorithm 4)."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from atd_dask.distribution.checkpointing import Checkpointer, OnProgress, ReplicatesDone
from atd_dask.distribution.engine.alignment import align
from atd_dask.distribution.engine.counters import count
from atd_dask.distribution.engine.runner import Runner
from atd_dask.kernels.alternative import Alternative
from atd_dask.kernels.bootstrap import ClusterBootstrap, Pool
from atd_dask.kernels.cluster_growth import Growth
from atd_dask.kernels.detection_rules import DetectionRules, FoundCluster
from atd_dask.kernels.donors import DonorLists, Similar, find_similar
from atd_dask.kernels.fitters import Fitter
from atd_dask.kernels.model import Block, Floats, Ints, Proportions
from atd_dask.kernels.next_document import Batch, Sample

# This many bootstrap documents make a task of some hundred milliseconds. Tasks are not larger,
# because a cluster that is not significant fails after few replicates.
DOCUMENTS_PER_TASK = 2**12
MOST_REPLICATES = 100

# Donors are fetched for this many bootstrap documents at a time.
DOCUMENTS_AT_ONCE = 2**14


class Replicates(Protocol):
    """Bootstrap clusters that resemble a cluster, wherever their donors are."""

    @property
    def is_possible(self) -> bool: ...

    @property
    def only_donor(self) -> int: ...

    def scores(self, runner: Runner, first: int, last: int) -> Generator[Floats, None, None]:
        """Yield the scores of the replicates from `first` to before `last`, in order, some at a
        time."""


class ScoredGrowth(NamedTuple):
    """A candidate with the topic of its documents, and their score under it."""

    growth: Growth
    topic: Alternative
    score: float


def judge(
    grown: ScoredGrowth,
    replicates: Replicates,
    rules: DetectionRules,
    runner: Runner,
    checkpointer: Checkpointer,
    index: int,
    on_progress: OnProgress,
) -> FoundCluster:
    """Test a cluster, and stop as soon as it cannot be significant any more."""
    growth, topic, score = grown
    scores = checkpointer.load_scores(index)
    if not replicates.is_possible:
        return FoundCluster(growth, topic, score, scores, 1.0, False, len(growth.documents))
    above = int(np.count_nonzero(scores > score))
    # If the level is finer than replicates can resolve, there is still a p-value.
    most_above = max(rules.most_above, 0)
    with closing(replicates.scores(runner, len(scores), rules.replicates)) as results:
        while above <= most_above and len(scores) < rules.replicates:
            scores = np.concatenate((scores, next(results)))
            checkpointer.save_scores(index, scores)
            above = int(np.count_nonzero(scores > score))
            p_value = (above + 1) / (len(scores) + 1)
            on_progress(ReplicatesDone(index, len(scores), p_value))
    return FoundCluster(
        growth,
        topic,
        score,
        scores,
        p_value=(above + 1) / (len(scores) + 1),
        significant=above <= rules.most_above,
        only_donor=replicates.only_donor,
    )


def cut_replicates(first: int, last: int, size: int) -> list[range]:
    return [range(start, min(start + size, last)) for start in range(first, last, size)]


def replicates_per_task(cluster_size: int) -> int:
    return min(max(DOCUMENTS_PER_TASK // cluster_size, 1), MOST_REPLICATES)


@dataclass(frozen=True)
class WholeReplicates:
    """Replicates whose pool is sent to every worker."""

    bootstrap: ClusterBootstrap

    @property
    def is_possible(self) -> bool:
        return self.bootstrap.is_possible

    @property
    def only_donor(self) -> int:
        return self.bootstrap.only_donor

    def scores(self, runner: Runner, first: int, last: int) -> Generator[Floats, None, None]:
        pieces = cut_replicates(first, last, replicates_per_task(len(self.bootstrap.lengths)))
        yield from runner.map(score_replicates, self.bootstrap, pieces)


def score_replicates(bootstrap: ClusterBootstrap, replicates: range) -> Floats:
    scores = bootstrap.scores(replicates)
    count(replicates=len(scores))
    return scores


class Drawn(NamedTuple):
    """Some replicates, and the donors that were drawn for them."""

    replicates: range
    donors: Block
    chosen: Ints  # replicates × documents of the cluster: rows of `donors`


class DonorBatch(Protocol):
    """A batch that donors are drawn from."""

    def __len__(self) -> int: ...

    def find_similar(
        self, theta: Floats, usable: NDArray[np.bool_], nearest: int, before: int
    ) -> list[list[Similar]]:
        """Return the usable documents that may be donors, for every part of the batch and every row
        of `theta`, numbered as if `before` others preceded the batch."""

    def fetch(self, rows: Ints) -> Sample:
        """Return some documents, in ascending order."""


@dataclass(frozen=True)
class WholeDonors:
    """The donors in a batch in memory."""

    batch: Batch

    def __len__(self) -> int:
        return len(self.batch)

    def find_similar(
        self, theta: Floats, usable: NDArray[np.bool_], nearest: int, before: int
    ) -> list[list[Similar]]:
        return [find_similar(self.batch.fit, usable, theta, nearest, before)]

    def fetch(self, rows: Ints) -> Sample:
        return self.batch.take(rows)


@dataclass(frozen=True)
class DrawnReplicates:
    """Replicates of a large pool; they get the words of the donors that were drawn."""

    fitter: Fitter
    donor_lists: DonorLists
    lengths: Ints  # documents of the cluster
    home: Block  # the first documents of the pool
    batch: DonorBatch | None  # the others
    once: bool
    key: np.uint64

    @classmethod
    def of(
        cls,
        fitter: Fitter,
        cluster: Sample,
        home: Sample,
        batch: DonorBatch | None,
        usable: NDArray[np.bool_],
        rules: DetectionRules,
        key: np.uint64,
    ) -> DrawnReplicates:
        """Draw donors from the documents of `home`, and from those of the batch, if there is one,
        that are `usable`."""
        theta = cluster.fit.proportions.dense(fitter.context.table.n_topics)
        theta, list_of = np.unique(theta, axis=0, return_inverse=True)
        n_home = len(home.block)
        everyone = np.ones(n_home, dtype=np.bool_)
        parts = [find_similar(home.fit, everyone, theta, rules.donors, 0)]
        if batch is not None:
            parts += batch.find_similar(theta, usable, rules.donors, before=n_home)
        lists = [
            Similar.concatenate(found).nearest(rules.donors).rows
            for found in zip(*parts, strict=True)
        ]
        n_pool = n_home + (0 if batch is None else len(batch))
        donor_lists = DonorLists.of(list_of.reshape(-1), lists, n_pool)
        lengths = cluster.fit.lengths
        return cls(fitter, donor_lists, lengths, home.block, batch, rules.donors > 1, key)

    @property
    def is_possible(self) -> bool:
        return self.donor_lists.is_possible

    @property
    def only_donor(self) -> int:
        return self.donor_lists.largest

    def scores(self, runner: Runner, first: int, last: int) -> Generator[Floats, None, None]:
        given = (self.fitter, self.lengths, self.key)
        yield from runner.map(score_drawn, given, self._draw(first, last))

    def _draw(self, first: int, last: int) -> Iterator[Drawn]:
        """Yield pieces of work; the donors of several are fetched together."""
        size = replicates_per_task(len(self.lengths))
        at_once = size * max(1, DOCUMENTS_AT_ONCE // (size * len(self.lengths)))
        for many in cut_replicates(first, last, at_once):
            chosen = np.stack([self.donor_lists.choose(self.once, self.key, r) for r in many])
            rows, places = np.unique(chosen, return_inverse=True)
            donors, places = self._fetch(rows), places.reshape(chosen.shape)
            for few in cut_replicates(many.start, many.stop, size):
                mine = places[few.start - many.start : few.stop - many.start]
                needed, mine = np.unique(mine, return_inverse=True)
                yield Drawn(few, donors.take(needed), mine.reshape(len(few), -1))

    def _fetch(self, rows: Ints) -> Block:
        n_here = int(np.searchsorted(rows, len(self.home)))
        parts = [self.home.take(rows[:n_here])]
        if self.batch is not None and n_here < len(rows):
            parts.append(self.batch.fetch(rows[n_here:] - len(self.home)).block)
        return Block.concatenate(parts)


def score_drawn(given: tuple[Fitter, Ints, np.uint64], drawn: Drawn) -> Floats:
    """Return the scores of replicates whose donors were drawn: each document has one left."""
    fitter, lengths, key = given
    drawn = align(drawn)
    pool = Pool.of(fitter, drawn.donors, Proportions.empty(len(drawn.donors)))
    alone = np.arange(len(lengths) + 1)
    scores = [
        ClusterBootstrap(fitter, pool, lengths, alone, donors, key).scores(
            range(replicate, replicate + 1)
        )
        for replicate, donors in zip(drawn.replicates, drawn.chosen, strict=True)
    ]
    count(replicates=len(scores))
    return np.concatenate(scores)
