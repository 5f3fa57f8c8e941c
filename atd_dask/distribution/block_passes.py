"""Passes over the blocks of a corpus on a cluster.

A task takes a group of consecutive blocks. Statistics are added in a tree over the blocks whose
shape depends on their number alone: a group is a subtree of it. So groups can be as large as the
cluster allows, and the bytes are those of passes in one process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Self, cast

import numpy as np

from atd_dask.distribution.engine.runner import RemoteResults, Runner, align, align_arrays, hold
from atd_dask.kernels.blocks import Corpus, MemoryCorpus
from atd_dask.kernels.model import Block, Floats, Ints, Proportions, WordTable
from atd_dask.kernels.passes import (
    BRANCHES,
    ComputedProportions,
    HeldProportions,
    Pass,
    add_in_tree,
    add_passes,
    anchors_in,
    assign_pass,
    begin_blocks,
    fit_passes,
    place_anchors,
    read_proportions,
    split_rows,
)
from atd_dask.kernels.statistics import ExpectedCounts, count_words

# Values that are remembered: the shared model, the cost terms, and the words of topics before and
# after a pass.
MOST_RECENT = 4

# Levels of the tree that a task adds up, at most: a group has up to 64 blocks.
MOST_LEVELS = 2


@dataclass(frozen=True)
class BlockGroup:
    """Consecutive blocks, a subtree of the tree in which statistics are added."""

    blocks: Sequence[Block]

    def __sizeof__(self) -> int:
        return sum(block.__sizeof__() for block in self.blocks)

    @property
    def starts(self) -> Ints:
        return begin_blocks(self.blocks)

    def add(self, parts: Sequence[Pass], n_words: int) -> Pass:
        """Return the sum of the passes over the blocks, with the proportions of all of them."""
        proportions = []
        for part in parts:
            assert isinstance(part.proportions, Proportions)
            proportions.append(part.proportions)
        pairs = zip(parts, self.blocks, strict=True)
        whole = add_in_tree([place_anchors(part, block.start) for part, block in pairs], n_words)
        return replace(whole, proportions=Proportions.concatenate(proportions))


def choose_levels(n_blocks: int, least_groups: int) -> int:
    """Return how many levels of the tree a group may have if `least_groups` must be left."""
    levels = [n for n in range(MOST_LEVELS + 1) if n_blocks // BRANCHES**n >= least_groups]
    return max(levels, default=0)


@dataclass(frozen=True)
class Grouping:
    """How blocks are cut into groups, all subtrees: as many large ones for each thread, and small
    ones, of one level less, for what is left. So all threads have about as much to do."""

    large: Sequence[range]  # of blocks
    small: Sequence[range]

    @classmethod
    def of(cls, n_blocks: int, n_threads: int, least_groups: int) -> Grouping:
        n_levels = choose_levels(n_blocks, least_groups)
        size = BRANCHES**n_levels
        n_large = n_blocks // size // n_threads * n_threads if n_levels else n_blocks
        large = [range(n * size, (n + 1) * size) for n in range(n_large)]
        rest, part = range(n_large * size, n_blocks), max(size // BRANCHES, 1)
        return cls(large, [rest[n : n + part] for n in range(0, len(rest), part)])

    def __iter__(self) -> Iterator[range]:
        yield from self.large
        yield from self.small


@dataclass(frozen=True)
class ProportionsOnWorkers:
    """Proportions that stay where their blocks were fitted. If a worker is lost, Dask recomputes
    them, starting with the first pass of their order."""

    runner: Runner
    kept: RemoteResults
    bounds: Sequence[Ints]  # groups: where its blocks begin, and where the last one ends

    def part(self, start: int, stop: int) -> Proportions:
        firsts = [int(bounds[0]) for bounds in self.bounds]
        index = int(np.searchsorted(firsts, start, side="right")) - 1
        (group,) = self.runner.ask(hold, self.kept, [(index, None)])
        return cast(Proportions, group).part(start - firsts[index], stop - firsts[index])

    def save(self, save: Callable[[int, Proportions], None]) -> list[int]:
        self.runner.ask_all(save_parts, self.kept, save, self.bounds)
        return [start for bounds in self.bounds for start in bounds[:-1].tolist()]


class SentValues:
    """The last values that were sent to a cluster or computed there, which are not sent again."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._recent: deque[tuple[Any, Any]] = deque(maxlen=MOST_RECENT)

    def send(self, value: Any) -> Any:
        """Return the handle of a value."""
        for index, (known, handle) in enumerate(self._recent):
            if known is value:
                del self._recent[index]
                return self.note(value, handle)
        return self.note(value, self._runner.send(value))

    def note(self, value: Any, handle: Any) -> Any:
        """Remember the handle of a value; return the handle."""
        self._recent.append((value, handle))
        return handle


@dataclass(frozen=True)
class CountsOnWorkers:
    """Expected counts of a corpus that stay where they were added up."""

    runner: Runner
    sent: SentValues
    whole: Any  # the handle of a pass
    tokens: Ints
    proportion: Floats

    def ask(self, step: Callable[..., WordTable], *given: Any) -> WordTable:
        handles = [self.sent.send(value) for value in given]
        answer = self.runner.derive(ask_counts, self.whole, step, *handles)
        table: WordTable = self.runner.fetch(answer)
        self.sent.note(table, answer)
        return table


class ClusterPasses:
    """Passes with a task for each group of blocks.

    The blocks, the model and the proportions are held as results of tasks, which Dask recomputes if
    a worker that had them is lost. Statistics are added on the workers, and the words of topics are
    chosen where the sum is; only totals and the new model are sent to the client.
    """

    def __init__(self, runner: Runner, corpus: Corpus) -> None:
        self._runner = runner
        self._sent = SentValues(runner)
        self._corpus = corpus
        self.n_words = corpus.n_words

    def __enter__(self) -> Self:
        starts = self._corpus.block_starts
        n_blocks = len(starts) - 1
        n_threads, n_slots = self._runner.count_threads(), self._runner.count_slots()
        self._grouping = Grouping.of(n_blocks, n_threads, n_slots)
        groups = list(self._grouping)
        self._bounds = [starts[blocks.start : blocks.stop + 1] for blocks in groups]
        self._groups = self._runner.keep(read_group, self._corpus, groups, spread=True)
        return self

    def __exit__(self, *error: object) -> None:
        self._runner.drop(self._groups)

    def take(self, rows: Ints) -> Block:
        starts = np.array([*(bounds[0] for bounds in self._bounds), self._corpus.n_docs])
        mine = split_rows(rows, starts)
        return Block.concatenate(self._runner.ask_all(take_documents, self._groups, None, mine))

    def over(self, corpus: MemoryCorpus) -> AbstractContextManager[ClusterPasses]:
        return ClusterPasses(self._runner, corpus)

    def count_words(self) -> Ints:
        counts = self._runner.keep_all(count_in_group, self._groups, self.n_words)
        whole = self._reduce(add_totals, counts, None)
        (totals,) = self._runner.ask(hold, whole, [(0, None)])
        return cast(Ints, totals)

    def assign(self, table: WordTable) -> Pass:
        tables = self._send_to_all(table)
        return self._add_up(self._runner.keep_all(assign_group, self._groups, None, tables))

    def fit(
        self,
        table: WordTable,
        start: Proportions | HeldProportions,
        slope: Floats,
        anchors: Ints,
    ) -> Pass:
        if isinstance(start, ProportionsOnWorkers):
            starts = start.kept
        elif isinstance(start, Proportions):
            parts = [start.part(int(bounds[0]), int(bounds[-1])) for bounds in self._bounds]
            starts = self._runner.keep(hold_part, None, parts)
        else:
            starts = self._runner.keep(read_proportions, start, self._bounds)
        given, tables = (slope, anchors), self._send_to_all(table)
        return self._add_up(self._runner.keep_all(fit_group, self._groups, given, starts, tables))

    def _send_to_all(self, table: WordTable) -> RemoteResults:
        handle = self._sent.send(table)
        return RemoteResults([handle] * len(self._bounds), None)

    def _reduce(self, step: Callable[..., Any], parts: RemoteResults, shared: Any) -> RemoteResults:
        """Combine a result of each group in the tree over the blocks: first those of small groups,
        which are a level below the others."""
        n_large = len(self._grouping.large)
        small = RemoteResults(parts.results[n_large:], parts.shared)
        rest = self._runner.combine_some(step, small, shared, BRANCHES)
        level = RemoteResults([*parts.results[:n_large], *rest.results], parts.shared)
        return self._runner.reduce(step, level, shared, BRANCHES)

    def _add_up(self, parts: RemoteResults) -> Pass:
        kept = self._runner.keep_all(take_proportions, parts, None)
        whole = self._reduce(add_parts, parts, self.n_words)
        totals: Pass
        (totals,) = self._runner.ask(take_totals, whole, [(0, None)])
        sums, (handle,) = totals.expected, whole.results
        counts = CountsOnWorkers(self._runner, self._sent, handle, sums.tokens, sums.proportion)
        held = ProportionsOnWorkers(self._runner, kept, self._bounds)
        return replace(totals, proportions=held, expected=counts)


def read_group(corpus: Corpus, blocks: range) -> BlockGroup:
    return BlockGroup([corpus.block(index) for index in blocks])


def take_documents(group: BlockGroup, _: None, rows: Ints) -> Block:
    pairs = zip(group.blocks, split_rows(rows, group.starts), strict=True)
    return Block.concatenate([block.take(mine) for block, mine in pairs])


def count_in_group(group: BlockGroup, n_words: int) -> Ints:
    totals: Ints = np.sum([count_words(block, n_words) for block in group.blocks], axis=0)
    return totals


def add_totals(parts: Sequence[Ints], _: None) -> Ints:
    totals: Ints = np.sum(parts, axis=0)
    return totals


def assign_group(group: BlockGroup, _: None, table: WordTable) -> Pass:
    table = align_arrays(table)
    return group.add([assign_pass(block, table) for block in group.blocks], table.n_words)


def fit_group(
    group: BlockGroup, given: tuple[Floats, Ints], start: Proportions, table: WordTable
) -> Pass:
    slope, anchors = given
    table = align_arrays(table)
    here = align(start)  # it may come from another worker
    first = group.blocks[0].start
    mine = anchors_in(anchors, first, first + len(here))
    return group.add(fit_passes(group.blocks, table, here, slope, mine), table.n_words)


def take_proportions(part: Pass, _: None) -> Proportions | ComputedProportions:
    return part.proportions


def add_parts(parts: Sequence[Pass], n_words: int) -> Pass:
    return add_passes(parts, n_words)


def take_totals(whole: Pass, _: None) -> Pass:
    """Return a pass without what grows with the documents or the vocabulary."""
    assert isinstance(whole.expected, ExpectedCounts)
    nothing = Proportions.empty(0)
    return replace(whole, proportions=nothing, expected=whole.expected.totals())


def ask_counts(whole: Pass, step: Callable[..., WordTable], *given: Any) -> WordTable:
    return whole.expected.ask(step, *(align_arrays(value) for value in given))


def hold_part(_: None, part: Proportions) -> Proportions:
    return cast(Proportions, align(part))


def save_parts(part: Proportions, save: Callable[[int, Proportions], None], bounds: Ints) -> None:
    first = int(bounds[0])
    for start, stop in pairwise(bounds.tolist()):
        save(start, part.part(start - first, stop - first))
