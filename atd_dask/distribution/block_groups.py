"""How the blocks of a corpus are cut into tasks, and how the sums of these are added.

Sums are the same in any order, so tasks can be cut as the cluster needs it, and the bytes are those
of passes in one process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from atd_dask.distribution.engine.alignment import align_arrays, align_where_needed
from atd_dask.kernels.model import Ints, Proportions, WordTable
from atd_dask.kernels.passes import PassSums, add_sums
from atd_dask.kernels.statistics import FixedCounts, add_counts
from atd_dask.kernels.word_switches import SharedModel, TopicWords

BRANCHES = 8  # how many sums are added at a time
MOST_BLOCKS = 256  # of a task: it takes seconds

# Topics are cut into parts, whose words are chosen at once on different workers: at most this many,
# since each part takes a few tasks.
MOST_PARTS = 8


@dataclass(frozen=True)
class GroupPass:
    """A pass over the blocks of a task."""

    proportions: Proportions
    sums: PassSums

    def __sizeof__(self) -> int:
        return self.proportions.__sizeof__() + self.sums.__sizeof__()


@dataclass(frozen=True)
class Totals:
    """What the client needs to know of a pass."""

    sums: PassSums  # without words
    n_specific: Ints | None  # topics: N_j of the words that were fitted, if any were

    def __sizeof__(self) -> int:
        return self.sums.__sizeof__()


# Counts of some documents, of all topics or of some.
Counted = PassSums | GroupPass | FixedCounts

# The words of all topics: as a table, or those of some topics at a time.
Words = WordTable | Sequence[TopicWords]


def cut_blocks(n_blocks: int, n_threads: int) -> list[range]:
    """Cut blocks into groups of about as many, as many groups for each thread."""
    n_groups = max(-(-n_blocks // MOST_BLOCKS), 1)
    n_groups = min(-(-n_groups // n_threads) * n_threads, n_blocks)
    return cut_evenly(n_blocks, n_groups)


def cut_topics(n_topics: int, n_threads: int) -> list[range]:
    """Cut topics into parts of about as many."""
    return cut_evenly(n_topics, min(n_topics, n_threads, MOST_PARTS))


def cut_evenly(n_pieces: int, n_parts: int) -> list[range]:
    bounds = (np.arange(n_parts + 1) * n_pieces // max(n_parts, 1)).tolist()
    return [range(*both) for both in pairwise(bounds)]


def add_groups(parts: Sequence[PassSums | GroupPass], n_words: int) -> PassSums:
    """Return the sums over several groups, in the order of blocks."""
    return add_sums([align_where_needed(take_sums(part)) for part in parts], n_words)


def take_sums(part: PassSums | GroupPass) -> PassSums:
    return part.sums if isinstance(part, GroupPass) else part


def take_topics(part: PassSums | GroupPass, topics: range) -> FixedCounts:
    """Return the counts of some topics."""
    return take_sums(part).counts.part(topics.start, topics.stop)


def add_topics(parts: Sequence[Counted], topics: range, n_words: int) -> FixedCounts:
    """Return the sum of the counts of some topics. Parts may have these topics alone, or all."""
    counts = [
        part if isinstance(part, FixedCounts) else take_topics(part, topics) for part in parts
    ]
    return add_counts([align_where_needed(part) for part in counts], n_words)


def take_totals(part: PassSums | GroupPass) -> PassSums:
    return take_sums(part).totals()


def add_totals(parts: Sequence[PassSums], words: Words | None) -> Totals:
    """Return the totals over a corpus that was fitted to these words, if it was."""
    whole = add_sums(parts, 0).join_blocks()
    if words is None:
        return Totals(whole, None)
    tables = [words] if isinstance(words, WordTable) else words
    return Totals(whole, np.concatenate([table.specific_words() for table in tables]))


def join_words(words: Words, shared: SharedModel | None) -> WordTable:
    """Return the words of all topics as a table, which may be one already."""
    if isinstance(words, WordTable):
        table: WordTable = align_arrays(words)
        return table
    return TopicWords.concatenate(words).table(align_arrays(shared))
