from __future__ import annotations

import pytest

from atd_dask.distribution.block_groups import MOST_BLOCKS, MOST_PARTS, cut_blocks, cut_topics
from atd_dask.distribution.engine.runner import share_out


@pytest.mark.parametrize("n_threads", [1, 2, 7])
@pytest.mark.parametrize("n_blocks", [1, 5, 8, 71, 706, 5_000])
def test_threads_have_about_as_much_to_do(n_blocks, n_threads):
    groups = cut_blocks(n_blocks, n_threads)
    assert [block for blocks in groups for block in blocks] == list(range(n_blocks))
    assert all(1 <= len(blocks) <= MOST_BLOCKS for blocks in groups)
    loads = [0] * n_threads
    for index, blocks in zip(share_out(len(groups), n_threads), groups, strict=True):
        loads[index] += len(blocks)
    # They have as many groups each, and a group has at most a block more than another.
    assert max(loads) - min(loads) <= -(-len(groups) // n_threads)


def test_a_thread_has_no_more_tasks_than_it_needs():
    assert list(map(len, cut_blocks(71, 2))) == [35, 36]
    assert list(map(len, cut_blocks(71, 1))) == [71]
    assert list(map(len, cut_blocks(706, 2))) == [176, 177, 176, 177]
    assert list(map(len, cut_blocks(3, 8))) == [1, 1, 1]


@pytest.mark.parametrize(
    ("n_topics", "n_threads", "n_parts"), [(100, 2, 2), (100, 99, MOST_PARTS), (3, 8, 3), (1, 2, 1)]
)
def test_topics_are_cut_into_a_few_parts(n_topics, n_threads, n_parts):
    parts = cut_topics(n_topics, n_threads)
    assert len(parts) == n_parts
    assert [topic for part in parts for topic in part] == list(range(n_topics))
