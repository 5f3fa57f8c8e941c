"""Calibration: the search of a detection, run in held-out normal documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

import numpy as np

from atd_dask.distribution.checkpointing import Checkpointer, OnProgress, SearchesDone
from atd_dask.distribution.cluster_search import grow_groups, list_candidates, rank
from atd_dask.distribution.engine.runner import Runner
from atd_dask.distribution.vector_batches import is_small, open_vectors
from atd_dask.errors import TooLittleTrainingError
from atd_dask.kernels.blocks import Corpus, MemoryCorpus
from atd_dask.kernels.calibration import (
    HeldOutSearch,
    JoinedCorpus,
    RowsInMemory,
    draw_held_out,
    estimate_p_value,
    is_certain,
    list_support,
)
from atd_dask.kernels.detection_rules import DetectionRules, FoundCluster

# How many documents and words of a held-out search are kept, for people to look at.
NAMED_DOCUMENTS = 3
NAMED_WORDS = 8

# The searches that every decision rests on.
FEW_SEARCHES = 19


@dataclass(frozen=True)
class Calibration:
    """The search of a detection, for batches without an anomaly."""

    corpora: Mapping[str, Corpus]
    rules: DetectionRules
    n_batch: int
    seed: int

    @property
    def normal(self) -> Corpus:
        """All documents that are known to be normal."""
        return JoinedCorpus((self.corpora["train"], self.corpora["validation"]))


def check_size(calibration: Calibration, n_docs: int) -> None:
    """Check that there are enough normal documents for held-out batches as large as this one."""
    n_normal = calibration.normal.n_docs
    if 2 * n_docs > n_normal:
        raise TooLittleTrainingError(
            "there must be at least twice as many normal documents as documents to be searched, got"
            f" {n_normal:,} and {n_docs:,}: provide more training documents, search fewer documents"
            " at a time, or set detection.significance.searches to 0 to rely on the bootstrap alone"
        )


@dataclass
class HeldOutSearches:
    """The searches in held-out documents, run as far as decisions need them.

    A cluster is compared with the first 19 searches, then with twice as many and one more, until
    the decision is certain or there are `rules.searches` of them. So its p-value does not depend on
    how many others needed.
    """

    calibration: Calibration
    runner: Runner
    checkpointer: Checkpointer
    on_progress: OnProgress

    @cached_property
    def _found(self) -> list[HeldOutSearch]:
        return list(self.checkpointer.load_calibration())

    def compare(self, cluster: FoundCluster) -> FoundCluster:
        """Judge a cluster: it is significant if held-out searches rarely find as much support."""
        searches = self.take_for(cluster.support)
        return compare_with_calibration(cluster, searches, self.calibration.rules.level)

    def take_for(self, support: float) -> tuple[HeldOutSearch, ...]:
        """Return the searches that the decision about a support rests on."""
        rules = self.calibration.rules
        n = min(FEW_SEARCHES, rules.searches)
        while True:
            searches = self.take(n)
            p_value = estimate_p_value(support, list_support(searches))
            if n == rules.searches or is_certain(p_value, rules.level, n):
                return searches
            n = min(2 * n + 1, rules.searches)

    def take(self, n: int) -> tuple[HeldOutSearch, ...]:
        """Return the first n searches; those that have not been run run now.

        Searches in small batches run in parallel, a task each. In large batches every step of a
        search is distributed.
        """
        for one in self._search(range(len(self._found), n)):
            self._found.append(one)
            self.checkpointer.save_calibration(self._found)
            largest = max(search.support for search in self._found)
            self.on_progress(SearchesDone(len(self._found), largest))
        return tuple(self._found[:n])

    def _search(self, waiting: Sequence[int]) -> Iterable[HeldOutSearch]:
        calibration = self.calibration
        if not waiting:
            return ()
        held, _ = draw_held_out(calibration.normal, calibration.n_batch, calibration.seed, 0)
        if is_small(held):
            return self.runner.map(search_held_out, calibration, waiting)
        return (search_held_out(calibration, index, self.runner) for index in waiting)


def search_held_out(
    calibration: Calibration, index: int, runner: Runner | None = None
) -> HeldOutSearch:
    """Run a whole search in held-out documents, and return its best candidate."""
    runner = runner or Runner()
    rules, normal = calibration.rules, calibration.normal
    held: Corpus
    rest: Corpus
    held, rest = draw_held_out(normal, calibration.n_batch, calibration.seed, index)
    rows = held.chosen
    if is_small(normal):
        held, rest = MemoryCorpus.read(held), MemoryCorpus.read(rest)
    elif is_small(held):
        held = RowsInMemory(normal, rows)
    found = find_best(runner, held, rest, rules)
    return replace(found, documents=tuple(rows[list(found.documents)].tolist()))


def find_best(
    runner: Runner, batch: Corpus, normal: Corpus, rules: DetectionRules
) -> HeldOutSearch:
    """Run a whole search in a batch, and return its best candidate; its documents are rows of the
    batch."""
    everyone = np.ones(batch.n_docs, dtype=np.bool_)
    nothing = np.zeros(0, np.int64)
    with open_vectors(runner, batch, normal, rules.unseen) as vectors:
        search = vectors.search(everyone, nothing, rules.max_size)
        groups = grow_groups(search, search.choose_starts(rules.seeds))
        if not groups:
            return HeldOutSearch(0.0)
        # A detection judges this many candidates before it gives up.
        judged = [each.group for each in islice(list_candidates(search, groups), rules.failures)]
        best = rank(judged)[0]
        documents = np.array(best.documents)
        words = search.words(np.sort(documents))
        return HeldOutSearch(
            float(best.support),
            len(documents),
            tuple(documents[:NAMED_DOCUMENTS].tolist()),
            tuple(words[:NAMED_WORDS].tolist()),
        )


def compare_with_calibration(
    cluster: FoundCluster, searches: Sequence[HeldOutSearch], level: float
) -> FoundCluster:
    """Judge a cluster: it is significant if held-out searches rarely find as much support."""
    judged = replace(cluster, searches=tuple(searches))
    return replace(judged, significant=judged.deciding_p_value <= level)
