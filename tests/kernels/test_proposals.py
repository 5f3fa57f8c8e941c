"""Proposals: which are the same."""

from __future__ import annotations

from atd_dask.kernels.proposals import Proposal


def test_proposals_are_alike_if_most_of_the_smaller_one_is_in_both():
    one = Proposal(tuple(range(10)), 5.0)
    assert one.is_like(Proposal((7, 8, 9, 20), 1.0))
    assert not one.is_like(Proposal((8, 9, 20, 21), 1.0))
