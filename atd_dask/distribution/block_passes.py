"""Passes over the blocks of a corpus on a cluster.

The words of topics follow from the counts of a fit, and the next fit follows from these words.
Neither needs the client, so both are submitted with a fit, before anybody knows whether they will
be needed, and workers do not wait between passes. At the end of an order they are dropped; the
client decides that while the words are still being chosen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Self, cast

import numpy as np

from atd_dask.distribution.block_groups import BlockGroup, Grouping, GroupPass, add_groups
from atd_dask.distribution.engine.runner import (
    RemoteResults,
    Runner,
    align,
    align_arrays,
    find_siblings,
    hold,
)
from atd_dask.kernels.blocks import Corpus, MemoryCorpus
from atd_dask.kernels.model import Block, Floats, HeldTable, Ints, Proportions, WordTable
from atd_dask.kernels.passes import (
    BRANCHES,
    HeldProportions,
    NextWords,
    Pass,
    Start,
    anchors_in,
    assign_pass,
    fit_passes,
    read_proportions,
    slope_topics,
    split_rows,
)
from atd_dask.kernels.statistics import ExpectedCounts, count_words

# Values that are remembered: the shared model, the cost terms, and the words of topics.
MOST_RECENT = 3

# Somebody waits for the totals of a pass, and the next fit for its words.
TOTALS_PRIORITY = 3
WORDS_PRIORITY = 2


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


@dataclass(frozen=True)
class TableOnWorkers:
    """Words of topics that stay where they were chosen until they are read."""

    runner: Runner
    handle: Any
    n_topics: int

    @cached_property
    def _here(self) -> WordTable:
        table: WordTable = self.runner.fetch(self.handle)
        return table

    def read(self) -> WordTable:
        return self._here


class SentValues:
    """The last values that were sent to a cluster, which are not sent again."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._recent: deque[tuple[Any, Any]] = deque(maxlen=MOST_RECENT)

    def send(self, value: Any) -> Any:
        """Return the handle of a value."""
        if isinstance(value, TableOnWorkers):
            return value.handle
        for index, (known, _) in enumerate(self._recent):
            if known is value:
                again = self._recent[index]
                del self._recent[index]
                break
        else:
            again = value, self._runner.send(value)
        self._recent.append(again)
        return again[1]


@dataclass(frozen=True)
class CountsOnWorkers:
    """Expected counts of a corpus that stay where they were added up, and the words that are likely
    to be asked for, which are computed already."""

    runner: Runner
    sent: SentValues
    whole: Any  # the handle of a pass
    tokens: Ints
    proportion: Floats
    likely: NextWords | None
    words: TableOnWorkers | None

    def ask(self, step: Callable[..., WordTable], *given: Any) -> TableOnWorkers:
        asked = NextWords(step, given)
        if self.likely is not None and self.words is not None and self.likely.is_same(asked):
            return self.words
        return choose_words(self.runner, self.sent, self.whole, asked, len(self.tokens))


def choose_words(
    runner: Runner, sent: SentValues, whole: Any, asked: NextWords, n_topics: int
) -> TableOnWorkers:
    """Have the words chosen that follow from the counts of a pass."""
    handles = [sent.send(value) for value in asked.given]
    handle = runner.derive(ask_counts, whole, asked.step, *handles, priority=WORDS_PRIORITY)
    return TableOnWorkers(runner, handle, n_topics)


@dataclass(frozen=True)
class FitAhead:
    """A fit to these words, after the pass with those proportions, that was submitted ahead."""

    table: TableOnWorkers
    proportions: ProportionsOnWorkers
    parts: RemoteResults


class ClusterPasses:
    """Passes with a task for each group of blocks.

    The blocks, the model and the proportions are held as results of tasks, which Dask recomputes if
    a worker that had them is lost. Statistics are added on the workers, and the words of topics are
    chosen where the sum is. Only totals are sent to the client, and the words when they are read.
    """

    def __init__(self, runner: Runner, corpus: Corpus) -> None:
        self._runner = runner
        self._sent = SentValues(runner)
        self._corpus = corpus
        self._ahead: FitAhead | None = None
        self.n_words = corpus.n_words

    def __enter__(self) -> Self:
        starts = self._corpus.block_starts
        n_blocks = len(starts) - 1
        n_threads, n_slots = self._runner.count_threads(), self._runner.count_slots()
        self._grouping = Grouping.of(n_blocks, n_threads, n_slots)
        groups = list(self._grouping)
        self._bounds = [starts[blocks[0].start : blocks[-1].stop + 1] for blocks in groups]
        kinds = len(self._grouping.large), len(self._grouping.small)
        self._groups = self._runner.keep(read_group, self._corpus, groups, spread=kinds)
        return self

    def __exit__(self, *error: object) -> None:
        self.forget()
        self._runner.drop(self._groups)

    def take(self, rows: Ints) -> Block:
        starts = np.array([*(bounds[0] for bounds in self._bounds), self._corpus.n_docs])
        mine = split_rows(rows, starts)
        return Block.concatenate(self._runner.ask_all(take_documents, self._groups, None, mine))

    def over(self, corpus: MemoryCorpus) -> AbstractContextManager[ClusterPasses]:
        return ClusterPasses(self._runner, corpus)

    def count_words(self) -> Ints:
        counts = self._runner.keep_all(count_in_group, self._groups, self.n_words)
        whole = self._runner.reduce(add_totals, counts.results, None, BRANCHES)
        totals: Ints = self._runner.fetch(whole)
        return totals

    def assign(self, table: HeldTable) -> Pass:
        self.forget()
        tables = self._send_to_all(self._sent.send(table))
        parts = self._runner.keep_all(assign_group, self._groups, None, tables)
        added = self._add_up(parts, None)
        return added.wait(None, None)

    def fit(self, table: HeldTable, start: Start, lda: bool, likely: NextWords) -> Pass:
        handle = self._sent.send(table)
        ahead = self._ahead
        if ahead and ahead.table is table and ahead.proportions is start.proportions:
            parts = ahead.parts
        else:
            self.forget()
            totals = replace(start, proportions=Proportions.empty(0))
            parts = self._fit(
                handle, self._place(start.proportions), self._runner.send(totals), lda
            )
        added = self._add_up(parts, handle)
        words = choose_words(self._runner, self._sent, added.whole, likely, table.n_topics)
        parts = self._fit(words.handle, added.proportions.kept, added.totals, lda)
        self._ahead = FitAhead(words, added.proportions, parts)
        return added.wait(likely, words)

    def forget(self) -> None:
        self._ahead = None

    def _place(self, start: Proportions | HeldProportions) -> RemoteResults:
        """Return the proportions of each group, on the workers."""
        if isinstance(start, ProportionsOnWorkers):
            return start.kept
        if isinstance(start, Proportions):
            parts = [start.part(int(bounds[0]), int(bounds[-1])) for bounds in self._bounds]
            return self._runner.keep(hold_part, None, parts)
        return self._runner.keep(read_proportions, start, self._bounds)

    def _fit(self, table: Any, starts: RemoteResults, totals: Any, lda: bool) -> RemoteResults:
        shared = self._send_to_all(table), self._send_to_all(totals)
        return self._runner.keep_all(fit_group, self._groups, lda, starts, *shared)

    def _send_to_all(self, handle: Any) -> RemoteResults:
        return RemoteResults([handle] * len(self._bounds), None)

    def _add_up(self, parts: RemoteResults, table: Any) -> AddedPass:
        """Add up the groups in the tree over the blocks: first the small ones, whose subtrees are a
        level below the others. `table` is what was fitted."""
        runner, grouping = self._runner, self._grouping
        kept = runner.keep_all(take_proportions, parts, None)
        n_large = len(grouping.large)
        sizes = [len(subtrees) for subtrees in grouping]
        small = find_siblings(parts.results[n_large:], sizes[n_large:], BRANCHES)
        rest = runner.combine_each(add_groups, small, self.n_words)
        level = [*parts.results[:n_large], *rest]
        sizes = [*sizes[:n_large], *(1 for _ in rest)]
        whole = runner.reduce(add_groups, level, self.n_words, BRANCHES, sizes)
        totals = runner.derive(take_totals, whole, table, priority=TOTALS_PRIORITY)
        held = ProportionsOnWorkers(runner, kept, self._bounds)
        return AddedPass(runner, self._sent, whole, totals, held)


@dataclass(frozen=True)
class AddedPass:
    """A pass that is being added up on the workers."""

    runner: Runner
    sent: SentValues
    whole: Any  # handles
    totals: Any
    proportions: ProportionsOnWorkers

    def wait(self, likely: NextWords | None, words: TableOnWorkers | None) -> Pass:
        """Return the pass when its totals are known. `words` are computed already, because they are
        `likely` to be asked for."""
        totals: Pass = self.runner.fetch(self.totals)
        sums = totals.expected
        counts = CountsOnWorkers(
            self.runner, self.sent, self.whole, sums.tokens, sums.proportion, likely, words
        )
        return replace(totals, proportions=self.proportions, expected=counts)


def read_group(corpus: Corpus, subtrees: Sequence[range]) -> BlockGroup:
    blocks = [corpus.block(index) for blocks in subtrees for index in blocks]
    return BlockGroup(blocks, [len(blocks) for blocks in subtrees])


def take_documents(group: BlockGroup, _: None, rows: Ints) -> Block:
    pairs = zip(group.blocks, split_rows(rows, group.starts), strict=True)
    return Block.concatenate([block.take(mine) for block, mine in pairs])


def count_in_group(group: BlockGroup, n_words: int) -> Ints:
    totals: Ints = np.sum([count_words(block, n_words) for block in group.blocks], axis=0)
    return totals


def add_totals(parts: Sequence[Ints], _: None) -> Ints:
    totals: Ints = np.sum(parts, axis=0)
    return totals


def assign_group(group: BlockGroup, _: None, table: WordTable) -> GroupPass:
    table = align_arrays(table)
    return group.add([assign_pass(block, table) for block in group.blocks], table.n_words)


def fit_group(
    group: BlockGroup, lda: bool, start: Proportions, table: WordTable, before: Pass | Start
) -> GroupPass:
    before = Start.after(before) if isinstance(before, Pass) else before
    table, here = align_arrays(table), align(start)  # they may come from another worker
    slope = slope_topics(table, before.tokens, lda)
    first = group.blocks[0].start
    mine = anchors_in(before.anchors, first, first + len(here))
    return group.add(fit_passes(group.blocks, table, here, slope, mine), table.n_words)


def take_proportions(part: GroupPass, _: None) -> Proportions:
    return part.proportions


def take_totals(added: GroupPass, table: WordTable | None) -> Pass:
    """Return a pass without what grows with the documents or the vocabulary, and with the numbers
    of words that were fitted."""
    (whole,) = added.sums
    assert isinstance(whole.expected, ExpectedCounts)
    totals = replace(whole, expected=whole.expected.totals())
    return totals if table is None else replace(totals, n_specific=table.specific_words())


def ask_counts(added: GroupPass, step: Callable[..., WordTable], *given: Any) -> WordTable:
    (whole,) = added.sums
    assert isinstance(whole.expected, ExpectedCounts)
    return whole.expected.ask(step, *(align_arrays(value) for value in given))


def hold_part(_: None, part: Proportions) -> Proportions:
    return cast(Proportions, align(part))


def save_parts(part: Proportions, save: Callable[[int, Proportions], None], bounds: Ints) -> None:
    first = int(bounds[0])
    for start, stop in pairwise(bounds.tolist()):
        save(start, part.part(start - first, stop - first))
