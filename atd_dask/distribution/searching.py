"""The search for one cluster: candidates grown side by side, the best of them to its end.

In a batch that is small enough for every worker a growth is a task. In a batch of shards growth
stays here, and every step of it is spread.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from atd_dask.distribution.events import listen, report
from atd_dask.distribution.rules import DetectionRules, Keeper, Tell, tell_nobody
from atd_dask.distribution.running import Kept, Runner
from atd_dask.distribution.shards import NewTopic
from atd_dask.kernels.alternative import Alternative
from atd_dask.kernels.bootstrap import Pool
from atd_dask.kernels.clusters import Grower, Growth, MembershipTest, choose_seeds
from atd_dask.kernels.fitters import Fitter
from atd_dask.kernels.growth import Searched

# A growth is kept and reported after a document that joins, but not more often.
SECONDS_BETWEEN = 1.0

# Previews in so many documents make a task of some tens of milliseconds; but few seeds at a time,
# so that all workers have some.
DOCUMENTS_PER_TASK = 2**12
MOST_SEEDS = 5


@dataclass(frozen=True)
class ClusterSearch:
    """The search for one cluster among the documents that are still available."""

    fitter: Fitter
    batch: Searched
    available: NDArray[np.bool_]
    rules: DetectionRules
    pool: Pool  # of the tests of membership
    key: tuple[object, ...]  # what the random numbers are for

    @property
    def grower(self) -> Grower:
        rules = self.rules
        return Grower(
            self.batch,
            self.available,
            rules.stop,
            rules.settling,
            self.fitter,
            self.pool,
            self.key,
            rules.max_size,
        )

    def propose(
        self, runner: Runner, keeper: Keeper, index: int, tell: Tell = tell_nobody
    ) -> Growth | None:
        """The best candidate: several documents are grown to a few, side by side, and that of
        largest gain is grown to its end."""
        growth = keeper.load_growth(index)
        if growth is None:
            seeds = choose_seeds(self.batch, self.available, self.rules.seeds)
            if not seeds:
                return None
            seed = seeds[0]
            if len(seeds) > 1:
                seed = seeds[int(np.argmax(self._preview(runner, seeds)))]
            growth = Growth(seed)
        if not growth.ended:
            growth = self._grow(growth, runner, keeper, index, tell)
            keeper.save_growth(index, growth)
        tell("grown", {"cluster": index, "size": len(growth.documents), "gain": growth.gain})
        return growth

    def _preview(self, runner: Runner, seeds: Sequence[int]) -> list[float]:
        size = min(max(DOCUMENTS_PER_TASK // len(self.batch), 1), MOST_SEEDS)
        pieces = [seeds[first : first + size] for first in range(0, len(seeds), size)]
        return [
            gain for gains in runner.map(preview_clusters, self.grower, pieces) for gain in gains
        ]

    def _grow(
        self, growth: Growth, runner: Runner, keeper: Keeper, index: int, tell: Tell
    ) -> Growth:
        with listen(runner.client, lambda facts: tell("growth", facts)) as topic:
            given = (self.grower, keeper, index, topic)
            # Closed here: left to be collected, it might be closed by another thread.
            with closing(runner.map(grow_cluster, given, [growth])) as step:
                grown: Growth = next(step)
        return grown


def preview_clusters(grower: Grower, seeds: Sequence[int]) -> list[float]:
    return [gain for seed in seeds for gain in grower.fork().preview([seed])]


def grow_cluster(given: tuple[Grower, Keeper, int, str | None], growth: Growth) -> Growth:
    grower, keeper, index, topic = given
    last = time.monotonic()

    def keep(growth: Growth) -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS_BETWEEN and not growth.ended:
            last = time.monotonic()
            keeper.save_growth(index, growth)
            report(topic, _describe(index, grower, growth))

    return grower.fork().grow(growth, keep)


def _describe(index: int, grower: Grower, growth: Growth) -> dict[str, object]:
    facts = {"cluster": index, "size": len(growth.so_far), "score": growth.steps[-1].score}
    return {**facts, **grower.count_tests(growth)}


@dataclass(frozen=True)
class SpreadSearch(ClusterSearch):
    """The search in a batch of shards, all seeds a document further in every round."""

    tests: Kept  # where documents are tested: the fitter and the pool

    def _preview(self, runner: Runner, seeds: Sequence[int]) -> list[float]:
        return self.grower.preview(seeds)

    def _grow(
        self, growth: Growth, runner: Runner, keeper: Keeper, index: int, tell: Tell
    ) -> Growth:
        grower = SpreadGrower(**vars(self.grower), runner=runner, tests=self.tests)

        def keep(growth: Growth) -> None:
            if not growth.ended:
                keeper.save_growth(index, growth)
                tell("growth", _describe(index, grower, growth))

        keeper.save_growth(index, growth)
        return grower.grow(growth, keep)


@dataclass(frozen=True, kw_only=True)
class SpreadGrower(Grower):
    """While a worker tests a candidate, the next model is trained here, on the cluster with it."""

    runner: Runner
    tests: Kept

    def _run_test(
        self, test: MembershipTest, topic: Alternative, documents: NDArray[np.int64]
    ) -> int:
        wait = self.runner.start(run_test, self.tests, (test, NewTopic.of(topic)))
        self.batch.train(np.append(documents, test.document))
        n_reaching: int = wait()
        return n_reaching


def run_test(given: tuple[Fitter, Pool], question: tuple[MembershipTest, NewTopic]) -> int:
    fitter, pool = given
    test, topic = question
    return test.count(fitter, topic.complete(fitter.context.table.shared), pool)
