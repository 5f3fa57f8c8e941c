"""Which near-duplicates are reported, and how."""

from __future__ import annotations

import numpy as np

from atd_dask.documents import Copies
from atd_dask.evaluation.copy_groups import choose_groups, describe_copies, group_copies

COPY_OF = np.array([-1, 0, -1, 2, 2, -1, 5, 5, 5, -1])
IN_TRAINING = np.array([False] * 5 + [True] * 4 + [False])


def test_groups_by_their_representative() -> None:
    assert group_copies(COPY_OF) == {0: [1], 2: [3, 4], 5: [6, 7, 8]}


def test_small_groups_and_those_of_training_are_not_reported() -> None:
    assert choose_groups(Copies(COPY_OF, IN_TRAINING)) == [[2, 3, 4]]
    nowhere = np.zeros(10, bool)
    assert choose_groups(Copies(COPY_OF, nowhere)) == [[5, 6, 7, 8], [2, 3, 4]]


def test_the_words_of_a_group_are_its_most_frequent_ones() -> None:
    ids = [f"d{row}" for row in range(10)]
    words = {2: {"the": 2, "invoice": 2, "pay": 5}}
    shared = {"the": 0.1, "pay": 0.01}
    (group,) = describe_copies([[2, 3, 4]], words, shared, (), ids, [()] * 10)
    assert (group.size, group.cluster) == (3, None)
    assert group.words == ("pay", "invoice", "the")
    assert [document.id for document in group.documents] == ["d2", "d3", "d4"]
