"""How the blocks of a corpus are cut into tasks.

Statistics are added in a tree over the blocks whose shape depends on their number alone. A task
takes neighbouring subtrees of it with the same parent, and returns a sum for each. So tasks can be
as large as the cluster allows, and the bytes are those of passes in one process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from atd_dask.distribution.engine.runner import share_out
from atd_dask.kernels.model import Block, Ints, Proportions
from atd_dask.kernels.passes import (
    BRANCHES,
    Pass,
    add_in_tree,
    add_passes,
    begin_blocks,
    place_anchors,
)

# Levels of the tree that a task adds up, at most: a task has up to 64 blocks.
MOST_LEVELS = 2

# Tasks with large subtrees for each thread, at least.
LARGE_TASKS = 2


@dataclass(frozen=True)
class GroupPass:
    """A pass over the blocks of a task, or a sum of such passes."""

    sums: Sequence[Pass]  # for each subtree, without proportions
    proportions: Proportions

    def __sizeof__(self) -> int:
        return sum(part.__sizeof__() for part in (self.proportions, *self.sums))


@dataclass(frozen=True)
class BlockGroup:
    """The blocks of a task."""

    blocks: Sequence[Block]
    sizes: Sequence[int]  # blocks of each subtree

    def __sizeof__(self) -> int:
        return sum(block.__sizeof__() for block in self.blocks)

    @property
    def starts(self) -> Ints:
        return begin_blocks(self.blocks)

    def add(self, parts: Sequence[Pass], n_words: int) -> GroupPass:
        """Return the sums of passes over the blocks, with the proportions of all of them."""
        proportions = []
        for part in parts:
            assert isinstance(part.proportions, Proportions)
            proportions.append(part.proportions)
        pairs = zip(parts, self.blocks, strict=True)
        rest = [place_anchors(part, block.start) for part, block in pairs]
        sums = []
        for size in self.sizes:
            mine, rest = rest[:size], rest[size:]
            whole = add_in_tree(mine, n_words)
            sums.append(replace(whole, proportions=Proportions.empty(0)))
        return GroupPass(sums, Proportions.concatenate(proportions))


def add_groups(parts: Sequence[GroupPass], n_words: int) -> GroupPass:
    """Return the sum over all subtrees of some groups, without the proportions."""
    sums = [one for part in parts for one in part.sums]
    return GroupPass([add_passes(sums, n_words)], Proportions.empty(0))


def choose_levels(n_blocks: int, least_groups: int) -> int:
    """Return how many levels of the tree a subtree may have if `least_groups` must be left."""
    levels = [n for n in range(MOST_LEVELS + 1) if n_blocks // BRANCHES**n >= least_groups]
    return max(levels, default=0)


@dataclass(frozen=True)
class Grouping:
    """How blocks are cut into subtrees, and subtrees into tasks. Each thread has as many large
    subtrees, and there are small ones, of one level less, for what is left: so all threads have
    about as much to do."""

    large: Sequence[Sequence[range]]  # tasks: subtrees of blocks
    small: Sequence[Sequence[range]]

    @classmethod
    def of(cls, n_blocks: int, n_threads: int, least_groups: int) -> Grouping:
        n_levels = choose_levels(n_blocks, least_groups)
        size = BRANCHES**n_levels
        n_large = n_blocks // size // n_threads * n_threads if n_levels else n_blocks
        large = [range(n * size, (n + 1) * size) for n in range(n_large)]
        rest, part = range(n_large * size, n_blocks), max(size // BRANCHES, 1)
        small = [rest[n : n + part] for n in range(0, len(rest), part)]
        most = min(n_large // (LARGE_TASKS * n_threads), BRANCHES**MOST_LEVELS // size)
        groupings = (
            cls(_join(large, of_large), _join(small, of_small))
            for of_large in _list_sizes(most)
            for of_small in _list_sizes(-(-len(small) // n_threads))
        )
        # One subtree for each task is always balanced.
        return next(grouping for grouping in groupings if grouping._is_balanced(n_threads))

    def _is_balanced(self, n_threads: int) -> bool:
        """Return whether threads among which tasks are shared out differ by one small subtree at
        most."""
        loads = [0] * n_threads
        for tasks in (self.large, self.small):
            for index, task in zip(share_out(len(tasks), n_threads), tasks, strict=True):
                loads[index] += sum(map(len, task))
        subtrees = [len(blocks) for task in self.small or self.large for blocks in task]
        return max(loads) - min(loads) <= max(subtrees, default=0)

    def __iter__(self) -> Iterator[Sequence[range]]:
        yield from self.large
        yield from self.small


def _list_sizes(most: int) -> list[int]:
    """Return how many neighbouring subtrees a task may have, the largest number first: powers of
    two, so that they have the same parent."""
    return [size for size in (8, 4, 2) if size <= min(most, BRANCHES)] + [1]


def _join(subtrees: Sequence[range], size: int) -> list[Sequence[range]]:
    return [subtrees[n : n + size] for n in range(0, len(subtrees), size)]
