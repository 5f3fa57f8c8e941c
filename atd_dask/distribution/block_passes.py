"""Passes over the blocks of a corpus on a cluster.

Documents are divided among the workers. What they add up to is divided by topics: each worker has
the sums of some topics, and chooses their words.

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

from atd_dask.distribution.block_groups import (
    BRANCHES,
    MOST_PARTS,
    Counted,
    GroupPass,
    Totals,
    Words,
    add_groups,
    add_topics,
    add_totals,
    cut_blocks,
    cut_topics,
    join_words,
    take_topics,
    take_totals,
)
from atd_dask.distribution.engine.alignment import align, align_arrays, align_where_needed
from atd_dask.distribution.engine.runner import RemoteResults, Runner, hold
from atd_dask.kernels.blocks import Corpus, MemoryCorpus
from atd_dask.kernels.model import Block, Floats, HeldTable, Ints, Proportions, WordTable
from atd_dask.kernels.passes import (
    Blocks,
    HeldProportions,
    NextWords,
    Pass,
    Start,
    anchors_in,
    assign_blocks,
    fit_blocks,
    read_proportions,
    slope_topics,
    split_rows,
)
from atd_dask.kernels.statistics import WordStep, count_fraction_bits, count_words
from atd_dask.kernels.word_switches import SharedModel, TopicWords

# Values that are remembered: the shared model, the cost terms, and the words of topics.
MOST_RECENT = 3

# Another worker waits for the counts of its topics, somebody for the totals of a pass, and the next
# fit for its words.
TOPICS_PRIORITY = 4
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
    parts: Sequence[Any]  # the handles of the words of some topics each
    shared: SharedModel
    n_topics: int

    @cached_property
    def _here(self) -> WordTable:
        return join_words([self.runner.fetch(part) for part in self.parts], self.shared)

    def read(self) -> WordTable:
        return self._here


class SentValues:
    """The last values that were sent to a cluster, which are not sent again."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._recent: deque[tuple[Any, Any]] = deque(maxlen=MOST_RECENT)

    def send(self, value: Any) -> Any:
        """Return the handle of a value, or those of its parts."""
        if isinstance(value, TableOnWorkers):
            return value.parts
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
class Addends:
    """What the counts of some topics are the sum of. They are added up where words are chosen."""

    handles: Sequence[Any]
    topics: range
    home: str


@dataclass(frozen=True)
class CountsOnWorkers:
    """Expected counts of a corpus that stay on the workers, and the words that are likely to be
    asked for, which are computed already."""

    runner: Runner
    sent: SentValues
    parts: Sequence[Addends]
    n_words: int
    tokens: Ints
    proportion: Floats
    likely: NextWords | None
    words: TableOnWorkers | None

    def ask(self, step: WordStep, shared: SharedModel, *given: Any) -> TableOnWorkers:
        asked = NextWords(step, (shared, *given))
        if self.likely is not None and self.words is not None and self.likely.is_same(asked):
            return self.words
        return choose_words(self.runner, self.sent, self.parts, self.n_words, asked)


def choose_words(
    runner: Runner, sent: SentValues, parts: Sequence[Addends], n_words: int, asked: NextWords
) -> TableOnWorkers:
    """Have the words chosen that follow from the counts of a pass."""
    given = [sent.send(value) for value in asked.given]
    rows = [
        (choose_topics, list(part.handles), part.topics, n_words, asked.step, *given)
        for part in parts
    ]
    words = runner.derive_all(rows, [part.home for part in parts], WORDS_PRIORITY)
    return TableOnWorkers(runner, words, asked.given[0], parts[-1].topics.stop)


@dataclass(frozen=True)
class FitAhead:
    """A fit to these words, after the pass with those proportions, that was submitted ahead."""

    table: TableOnWorkers
    proportions: ProportionsOnWorkers
    parts: RemoteResults


class ClusterPasses:
    """Passes with a task for each group of blocks.

    The blocks, the model and the proportions are held as results of tasks, which Dask recomputes if
    a worker that had them is lost. Statistics are added on the workers, and the words of a topic
    are chosen where its sum is. Only totals are sent to the client, and the words when they are
    read.
    """

    def __init__(self, runner: Runner, corpus: Corpus) -> None:
        self._runner = runner
        self._sent = SentValues(runner)
        self._corpus = corpus
        self._ahead: FitAhead | None = None
        self.n_words = corpus.n_words

    def __enter__(self) -> Self:
        starts, n_threads = self._corpus.block_starts, self._runner.count_threads()
        groups = cut_blocks(len(starts) - 1, n_threads)
        self._bounds = [starts[blocks.start : blocks.stop + 1] for blocks in groups]
        self._groups = self._runner.keep(read_group, self._corpus, self._bounds, spread=True)
        self._part_homes = self._runner.list_homes(min(n_threads, MOST_PARTS))
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
        return self._word_totals

    @cached_property
    def _word_totals(self) -> Ints:
        counts = self._runner.keep_all(count_in_group, self._groups, self.n_words)
        (whole,) = self._runner.reduce(add_arrays, counts, None, BRANCHES).results
        totals: Ints = self._runner.fetch(whole)
        return totals

    @cached_property
    def _bits(self) -> int:
        return count_fraction_bits(int(self._word_totals.sum()))

    def assign(self, table: HeldTable) -> Pass:
        self.forget()
        parts = self._runner.keep_all(
            assign_group, self._groups, self._bits, *self._send_table(table)
        )
        added = self._add_up(parts, None, table.n_topics)
        return added.wait(None, None)

    def fit(self, table: HeldTable, start: Start, lda: bool, likely: NextWords) -> Pass:
        ahead = self._ahead
        if ahead and ahead.table is table and ahead.proportions is start.proportions:
            parts = ahead.parts
            # While words are chosen, every millisecond of the scheduler counts.
            self._runner.wait(ahead.table.parts)
        else:
            self.forget()
            totals = replace(start, proportions=Proportions.empty(0))
            parts = self._fit(table, self._place(start.proportions), self._runner.send(totals), lda)
        added = self._add_up(parts, table, table.n_topics)
        words = choose_words(self._runner, self._sent, added.parts, self.n_words, likely)
        parts = self._fit(words, added.proportions.kept, added.totals, lda)
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

    def _fit(
        self, table: HeldTable, starts: RemoteResults, totals: Any, lda: bool
    ) -> RemoteResults:
        given = (*self._send_table(table), self._send_to_all(totals))
        return self._runner.keep_all(fit_group, self._groups, (lda, self._bits), starts, *given)

    def _send_table(self, table: HeldTable) -> tuple[RemoteResults, RemoteResults]:
        """Return what `join_words` makes a table of."""
        shared = self._sent.send(table.shared) if isinstance(table, TableOnWorkers) else None
        return self._send_to_all(self._sent.send(table)), self._send_to_all(shared)

    def _send_to_all(self, handle: Any) -> RemoteResults:
        return RemoteResults([handle] * len(self._bounds), None)

    def _add_up(self, groups: RemoteResults, table: HeldTable | None, n_topics: int) -> AddedPass:
        """Add up the groups: each part of the topics will have a home of its own. `table` is what
        was fitted."""
        runner = self._runner
        few = runner.reduce(add_groups, groups, self.n_words, BRANCHES, BRANCHES)
        cut = cut_topics(n_topics, len(self._part_homes))
        parts = list(zip(cut, self._part_homes[: len(cut)], strict=True))
        wanted = [
            # Only what these topics need is sent from elsewhere.
            (take_topics, handle, topics)
            for topics, home in parts
            for handle, place in zip(few.results, few.homes, strict=True)
            if place != home
        ]
        sent = iter(runner.derive_all(wanted, priority=TOPICS_PRIORITY))
        totals = [(take_totals, handle) for handle in few.results]
        proportions = [(take_proportions, handle) for handle in groups.results]
        taken = runner.derive_all([*totals, *proportions], priority=TOTALS_PRIORITY)
        kept = RemoteResults(taken[len(totals) :], None, groups.homes)
        words = None if table is None else self._sent.send(table)
        whole = runner.derive(add_totals, taken[: len(totals)], words, priority=TOTALS_PRIORITY)
        addends = [
            Addends(
                [
                    handle if place == home else next(sent)
                    for handle, place in zip(few.results, few.homes, strict=True)
                ],
                topics,
                home,
            )
            for topics, home in parts
        ]
        held = ProportionsOnWorkers(runner, kept, self._bounds)
        return AddedPass(runner, self._sent, addends, self.n_words, whole, held)


@dataclass(frozen=True)
class AddedPass:
    """A pass that is being added up on the workers."""

    runner: Runner
    sent: SentValues
    parts: Sequence[Addends]
    n_words: int
    totals: Any
    proportions: ProportionsOnWorkers

    def wait(self, likely: NextWords | None, words: TableOnWorkers | None) -> Pass:
        """Return the pass when its totals are known. `words` are computed already, because they are
        `likely` to be asked for."""
        totals: Totals = self.runner.fetch(self.totals)
        sums = totals.sums.counts.expected()
        counts = CountsOnWorkers(
            self.runner,
            self.sent,
            self.parts,
            self.n_words,
            sums.tokens,
            sums.proportion,
            likely,
            words,
        )
        return totals.sums.close(self.proportions, counts, totals.n_specific)


def read_group(corpus: Corpus, bounds: Ints) -> Blocks:
    first, last = int(bounds[0]), int(bounds[-1])
    return Blocks(replace(corpus.rows(first, last), start=first), bounds - first)


def take_documents(group: Blocks, _: None, rows: Ints) -> Block:
    return group.documents.take(rows)


def count_in_group(group: Blocks, n_words: int) -> Ints:
    return count_words(group.documents, n_words)


def add_arrays(parts: Sequence[Ints], _: None) -> Ints:
    totals: Ints = np.sum(parts, axis=0)
    return totals


def assign_group(group: Blocks, bits: int, words: Words, shared: SharedModel | None) -> GroupPass:
    table = join_words(words, shared)
    return GroupPass(*assign_blocks(align_where_needed(group), table, bits))


def fit_group(
    group: Blocks,
    given: tuple[bool, int],
    start: Proportions,
    words: Words,
    shared: SharedModel | None,
    before: Totals | Start,
) -> GroupPass:
    lda, bits = given
    if isinstance(before, Totals):
        sums = before.sums
        before = Start(Proportions.empty(0), sums.counts.tokens, sums.anchors)
    # All of this may come from another worker.
    group, here = align_where_needed(group), align_where_needed(start)
    table = join_words(words, shared)
    slope = slope_topics(table, before.tokens, lda)
    first = group.documents.start
    mine = anchors_in(before.anchors, first, first + len(here))
    return GroupPass(*fit_blocks(group, table, here, slope, mine, bits))


def take_proportions(part: GroupPass) -> Proportions:
    return part.proportions


def choose_topics(
    parts: Sequence[Counted],
    topics: range,
    n_words: int,
    step: WordStep,
    *given: Any,
) -> TopicWords:
    """Choose the words of some topics, from all parts of their counts."""
    counts = add_topics(parts, topics, n_words)
    return step(counts.expected(), *map(join_topics, given))


def join_topics(value: Any) -> Any:
    """Return the words of all topics if they came in parts, and anything else as it is."""
    return TopicWords.concatenate(value) if isinstance(value, list) else align_arrays(value)


def hold_part(_: None, part: Proportions) -> Proportions:
    return cast(Proportions, align(part))


def save_parts(part: Proportions, save: Callable[[int, Proportions], None], bounds: Ints) -> None:
    first = int(bounds[0])
    for start, stop in pairwise(bounds.tolist()):
        save(start, part.part(start - first, stop - first))
