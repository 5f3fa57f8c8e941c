from __future__ import annotations

from itertools import chain

import numpy as np
import pytest

from atd_dask.distribution.block_groups import LARGE_TASKS, MOST_LEVELS, Grouping
from atd_dask.distribution.engine.runner import share_out
from atd_dask.kernels.passes import BRANCHES


@pytest.mark.parametrize("n_threads", [1, 2, 7])
@pytest.mark.parametrize("n_blocks", [1, 5, 8, 71, 706, 5_000])
def test_threads_have_about_as_much_to_do(n_blocks, n_threads):
    grouping = Grouping.of(n_blocks, n_threads, 3 * n_threads)
    tasks = [[block for blocks in task for block in blocks] for task in grouping]
    assert [block for task in tasks for block in task] == list(range(n_blocks))
    loads = np.zeros(n_threads)
    for some in (tasks[: len(grouping.large)], tasks[len(grouping.large) :]):
        for index, task in zip(share_out(len(some), n_threads), some, strict=True):
            loads[index] += len(task)
    smallest = max(len(blocks) for task in grouping.small or grouping.large for blocks in task)
    assert loads.max() - loads.min() <= smallest


@pytest.mark.parametrize("n_threads", [1, 2, 7])
@pytest.mark.parametrize("n_blocks", [1, 5, 8, 71, 706, 5_000])
def test_a_task_has_neighbours_with_the_same_parent(n_blocks, n_threads):
    grouping = Grouping.of(n_blocks, n_threads, 3 * n_threads)
    for tasks in (grouping.large, grouping.small):
        first = 0
        for task in tasks:
            assert first % BRANCHES + len(task) <= BRANCHES
            assert len(list(chain(*task))) <= BRANCHES**MOST_LEVELS
            first += len(task)


def test_each_thread_has_a_few_tasks():
    grouping = Grouping.of(71, 2, 6)
    assert [len(task) for task in grouping.large] == 2 * LARGE_TASKS * [2]
    assert [len(task) for task in grouping.small] == [4, 3]
