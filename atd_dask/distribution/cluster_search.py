"""The search for one cluster: candidates in parallel, best supported first.

By default groups grow from many starts by the contrast search. By the rules of the paper, a few
documents are grown to small clusters, and the one with the largest gain is grown to its end. If a
batch is small enough for every worker, some of the starts make a task. If it is in shards, the
search runs here, and every step is a task per shard.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from atd_dask.distribution.checkpointing import (
    Checkpointer,
    Growing,
    Grown,
    OnProgress,
    ignore_progress,
)
from atd_dask.distribution.engine.alignment import align_where_needed
from atd_dask.distribution.engine.events import listen, report
from atd_dask.distribution.engine.runner import RemoteResults, Runner
from atd_dask.distribution.shards import NewTopic
from atd_dask.distribution.vector_batches import BatchVectors
from atd_dask.kernels.alternative import Alternative
from atd_dask.kernels.bootstrap import MembershipTest, Pool
from atd_dask.kernels.cluster_growth import Grower, Growth, choose_seeds
from atd_dask.kernels.contrast import LEAST_DOCUMENTS, ContrastSearch, Start
from atd_dask.kernels.detection_rules import DetectionRules
from atd_dask.kernels.fitters import Fitter
from atd_dask.kernels.model import Ints
from atd_dask.kernels.next_document import Sample, SearchableBatch
from atd_dask.kernels.proposals import Proposal

# The least time between two checkpoints of a growth, and between two reports of it.
SECONDS_BETWEEN = 1.0

# A task of tens of milliseconds previews seeds in about this many documents, but only a few seeds,
# so that all workers have some.
DOCUMENTS_PER_TASK = 2**12
MOST_SEEDS = 5

# Starts of the contrast search in a task of tens of milliseconds.
STARTS_PER_TASK = 10

# How often members are chosen by the topic that the previous members give.
TOPIC_ROUNDS = 2


@dataclass(frozen=True)
class ClusterSearch:
    """The search for one cluster among the available documents."""

    fitter: Fitter
    batch: SearchableBatch
    available: NDArray[np.bool_]
    known: Ints  # documents that were found earlier, or are around these
    rules: DetectionRules
    home: Sample  # the documents that tests of membership draw from
    vectors: BatchVectors
    key: tuple[object, ...]  # what the random numbers are for

    @cached_property
    def contrast(self) -> ContrastSearch:
        return self.vectors.search(self.available, self.known, self.rules.max_size)

    @cached_property
    def pool(self) -> Pool:
        return self.rules.make_pool(self.fitter, self.home.block, self.home.fit)

    @property
    def grower(self) -> Grower:
        rules = self.rules
        return Grower(
            self.batch,
            self.available,
            rules.stop,
            self.fitter,
            self.pool,
            self.key,
            rules.max_size,
        )

    def propose(
        self,
        runner: Runner,
        checkpointer: Checkpointer,
        index: int,
        on_progress: OnProgress = ignore_progress,
    ) -> Iterator[Growth]:
        """Yield candidates, best supported first; `index` is the number of the first one."""
        if not self.rules.settle:
            growth = self._grow_best(runner, checkpointer, index, on_progress)
            if growth is not None:
                yield growth
            return
        proposals = checkpointer.load_proposals(index)
        if proposals is None:
            proposals = self._grow_groups(runner, self.contrast.choose_starts(self.rules.seeds))
            checkpointer.save_proposals(index, proposals)
        for candidate in list_candidates(self.contrast, proposals):
            growth = checkpointer.load_growth(index)
            if growth is None:
                growth = self._settle(candidate)
                checkpointer.save_growth(index, growth)
            on_progress(Grown(index, len(growth.documents), growth.support))
            index += 1
            yield growth

    def _grow_groups(self, runner: Runner, starts: Sequence[Start]) -> list[Proposal]:
        size = STARTS_PER_TASK
        pieces = [starts[first : first + size] for first in range(0, len(starts), size)]
        asked = (self.available, self.known, self.rules.max_size)
        questions = [(self.vectors.there, piece) for piece in pieces]
        found = runner.combine(grow_on_worker, asked, questions)
        return [group for groups in found for group in groups]

    def _settle(self, candidate: Candidate) -> Growth:
        """Return a candidate with the documents that belong to it."""
        group = candidate.group
        documents = self._find_members(group, candidate.rest)
        return Growth(
            seed=int(documents[0]),
            ended=True,
            documents=tuple(documents.tolist()),
            gain=self.batch.gain(documents, self.batch.train(documents)),
            support=group.support,
            around=tuple(np.setdiff1d(group.documents, documents).tolist()),
        )

    def _find_members(self, group: Proposal, rest: Ints) -> Ints:
        """Return the members of a group, highest score first: its core, and the documents within
        reach that have good odds under the topic of the core. `rest` was split off from it."""
        documents = np.sort(np.array(group.documents))
        contrast = self.contrast.without(rest)
        core = contrast.find_core(documents)
        if len(core) < LEAST_DOCUMENTS:
            core = documents
        # Documents around an earlier cluster may belong to this one.
        free = self.available.copy()
        free[rest] = False
        reach = replace(contrast, available=free).find_reach(core)
        may_belong = np.append(core, documents)
        asked = np.append(reach, np.setdiff1d(may_belong, reach))[: self.rules.max_size]
        sample = self.batch.take(asked)
        belong = np.isin(asked, core)
        for _ in range(TOPIC_ROUNDS):
            members = np.sort(asked[belong])
            topic = self.batch.train(members).smoothed(self.fitter.context)
            least = self.rules.settling.least_gain(len(members), contrast.n_docs)
            belong = np.isin(asked, core) | (self.fitter.gains(topic, sample) > least)
        return asked[belong]

    def _grow_best(
        self, runner: Runner, checkpointer: Checkpointer, index: int, on_progress: OnProgress
    ) -> Growth | None:
        """Grow small clusters from several seeds, and the one with the largest gain to its end."""
        growth = checkpointer.load_growth(index)
        if growth is None:
            seeds = choose_seeds(self.batch, self.available, self.rules.seeds)
            if not seeds:
                return None
            seed = seeds[0]
            if len(seeds) > 1:
                seed = seeds[int(np.argmax(self._preview(runner, seeds)))]
            growth = Growth(seed)
        if not growth.ended:
            growth = self._grow(growth, runner, checkpointer, index, on_progress)
            if self.rules.searches > 0:
                judged = self.contrast.judge(np.sort(np.array(growth.documents)))
                growth = replace(growth, support=0.0 if judged is None else judged.support)
            checkpointer.save_growth(index, growth)
        on_progress(Grown(index, len(growth.documents), growth.support))
        return growth

    def _preview(self, runner: Runner, seeds: Sequence[int]) -> list[float]:
        size = min(max(DOCUMENTS_PER_TASK // len(self.batch), 1), MOST_SEEDS)
        pieces = [seeds[first : first + size] for first in range(0, len(seeds), size)]
        return [
            gain for gains in runner.map(preview_clusters, self.grower, pieces) for gain in gains
        ]

    def _grow(
        self,
        growth: Growth,
        runner: Runner,
        checkpointer: Checkpointer,
        index: int,
        on_progress: OnProgress,
    ) -> Growth:
        with listen(runner.client, lambda content: on_progress(Growing(**content))) as channel:
            given = (self.grower, checkpointer, index, channel)
            # Closed here: left to be collected, it might be closed by another thread.
            with closing(runner.map(grow_cluster, given, [growth])) as step:
                grown: Growth = next(step)
        return grown


def rank(proposals: Sequence[Proposal]) -> list[Proposal]:
    """Sort proposals by support, largest first; ties in the order in which they were found."""
    return sorted(proposals, key=lambda proposal: -proposal.support)


class Candidate(NamedTuple):
    """A group to be judged, and the documents that were split off from it."""

    group: Proposal
    rest: Ints


def list_candidates(contrast: ContrastSearch, proposals: Sequence[Proposal]) -> Iterator[Candidate]:
    """Yield distinct candidates, best supported proposals first, each split if it is two groups."""
    tried: list[Proposal] = []
    for proposal in rank(proposals):
        if any(proposal.is_like(other) for other in tried):
            continue
        group = contrast.part(proposal)
        tried += [proposal, group]
        yield Candidate(group, np.setdiff1d(proposal.documents, group.documents))


def grow_groups(contrast: ContrastSearch, starts: Sequence[Start]) -> list[Proposal]:
    """Grow a group from each start."""
    found = [contrast.grow(start) for start in starts]
    return [group for group in found if group is not None]


def grow_on_worker(
    there: Sequence[BatchVectors],
    asked: tuple[NDArray[np.bool_], Ints, int | None],
    starts: Sequence[Start],
) -> list[Proposal]:
    """Grow a group from each start in vectors that were made on a worker."""
    vectors, asked, starts = (align_where_needed(value) for value in (there[0], asked, starts))
    return grow_groups(vectors.search(*asked), starts)


def preview_clusters(grower: Grower, seeds: Sequence[int]) -> list[float]:
    return [gain for seed in seeds for gain in grower.fork().preview([seed])]


def grow_cluster(given: tuple[Grower, Checkpointer, int, str | None], growth: Growth) -> Growth:
    grower, checkpointer, index, channel = given
    last = time.monotonic()

    def keep(growth: Growth) -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS_BETWEEN and not growth.ended:
            last = time.monotonic()
            checkpointer.save_growth(index, growth)
            report(channel, asdict(_describe(index, grower, growth)))

    return grower.fork().grow(growth, keep)


def _describe(index: int, grower: Grower, growth: Growth) -> Growing:
    score = growth.steps[-1].score
    return Growing(index, len(growth.so_far), score, **grower.count_tests(growth))


@dataclass(frozen=True)
class ShardedClusterSearch(ClusterSearch):
    """The search in a batch of shards; all seeds grow by one document per round."""

    tests: RemoteResults  # where documents are tested: the fitter and the pool

    def _grow_groups(self, runner: Runner, starts: Sequence[Start]) -> list[Proposal]:
        return grow_groups(self.contrast, starts)

    def _preview(self, runner: Runner, seeds: Sequence[int]) -> list[float]:
        return self.grower.preview(seeds)

    def _grow(
        self,
        growth: Growth,
        runner: Runner,
        checkpointer: Checkpointer,
        index: int,
        on_progress: OnProgress,
    ) -> Growth:
        grower = ShardedGrower(**vars(self.grower), runner=runner, tests=self.tests)

        def keep(growth: Growth) -> None:
            if not growth.ended:
                checkpointer.save_growth(index, growth)
                on_progress(_describe(index, grower, growth))

        checkpointer.save_growth(index, growth)
        return grower.grow(growth, keep)


@dataclass(frozen=True, kw_only=True)
class ShardedGrower(Grower):
    """Trains the next model while a worker tests the candidate, as if it had passed."""

    runner: Runner
    tests: RemoteResults

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
