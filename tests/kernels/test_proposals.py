"""Proposals: who belongs to a topic, what is one cluster, and what is two."""

from __future__ import annotations

import numpy as np
import pytest

from atd_dask.kernels.blocks import MemoryCorpus
from atd_dask.kernels.cluster_growth import SettleRule
from atd_dask.kernels.fitters import Fitter
from atd_dask.kernels.proposals import Proposal, ProposalSearch
from atd_dask.kernels.support import NormalDocuments
from tests.kernels.strategies import make_block
from tests.kernels.test_calibration import refit_from_scratch
from tests.kernels.test_cluster_growth import make_batch


def search_in(batch, train, max_size=None):
    """A search among all documents, held against those of training; all words are known."""
    table = refit_from_scratch(MemoryCorpus(make_block(train + 1), train.shape[1]))
    made = make_batch(batch, table)
    normal = NormalDocuments(make_batch(train, table))
    available = np.ones(len(batch), bool)
    return ProposalSearch(
        made, available, SettleRule(), Fitter(made.context), normal, max_size=max_size
    )


def draw_planted():
    """A batch in which every fourth document has a topic of its own on half of its words."""
    rng = np.random.default_rng(4)
    topics = 0.8 * rng.dirichlet(np.full(120, 0.05), 4) + 0.2 / 120
    train = np.stack([rng.multinomial(60, topics[d % 3]) for d in range(300)])
    mixtures = [topics[d % 3] if d % 4 else (topics[d % 3] + topics[3]) / 2 for d in range(80)]
    return np.stack([rng.multinomial(60, mixture) for mixture in mixtures]), train


@pytest.fixture(scope="module")
def planted():
    return search_in(*draw_planted())


def search_in_two_planted(in_common):
    """Documents 0 to 19 have one topic of their own, 20 to 49 another; a share of their words is of
    both."""
    rng = np.random.default_rng(7)
    topics = 0.9 * rng.dirichlet(np.full(150, 0.05), 5) + 0.1 / 150
    common = np.zeros(150)
    common[:10] = 0.1
    topics[3:] = (1 - in_common) * topics[3:] + in_common * common
    train = np.stack([rng.multinomial(80, topics[d % 3]) for d in range(300)])
    kinds = [3] * 20 + [4] * 30 + [0, 1, 2] * 30
    batch = np.stack([rng.multinomial(80, topics[kind]) for kind in kinds])
    return search_in(batch, train)


@pytest.fixture(scope="module")
def two_planted():
    return search_in_two_planted(0.2)


@pytest.mark.parametrize("start", [[0], [0, 4, 8], [0, 4, 8, 1, 2, 3]])
def test_a_start_settles_on_those_who_belong(planted, start):
    settled = planted.settle(np.array(start))
    assert set(settled.documents) >= set(range(0, 80, 4))
    assert len(settled.documents) <= 24
    refined = planted.refine(settled)
    assert set(refined.documents) >= set(range(0, 80, 4))
    assert len(refined.documents) <= len(settled.documents)
    assert refined.support > 50


def test_what_nobody_shares_does_not_settle(planted):
    settled = planted.settle(np.array([1, 2, 3]))
    assert settled is None or settled.support < 10


def test_a_proposal_is_no_larger_than_allowed():
    small = search_in(*draw_planted(), max_size=7)
    settled = small.settle(np.array([0, 4, 8]))
    assert len(settled.documents) == 7
    assert len(small.refine(settled).documents) <= 7


def test_normal_documents_with_the_topic_take_support_away(planted):
    batch, train = draw_planted()
    cluster = np.arange(0, 80, 4)
    known = NormalDocuments(make_batch(np.vstack((train, batch[cluster])), planted_table(planted)))
    there = ProposalSearch(
        planted.batch, planted.available, planted.rule, planted.fitter, known
    ).judge(cluster)
    assert there.documents == planted.judge(cluster).documents
    assert there.support < planted.judge(cluster).support - 20


def planted_table(search):
    return search.fitter.context.table


def test_parts_of_a_cluster_are_merged(planted):
    parts = [planted.judge(np.arange(0, 40, 4)), planted.judge(np.arange(40, 80, 4))]
    merged = planted.merge(parts[0], parts[1:])
    assert set(merged.documents) >= set(range(0, 80, 4))


def test_two_clusters_are_not_merged_and_are_parted(two_planted):
    first, second = np.arange(20), np.arange(20, 50)
    parts = [two_planted.judge(second), two_planted.judge(first)]
    assert two_planted.merge(parts[0], parts[1:]).documents == parts[0].documents
    both = two_planted.judge(np.arange(50))
    part = two_planted.part(both)
    assert set(part.documents) == set(second.tolist())
    without = two_planted.without(first)
    assert not set(without.refine(part).documents) & set(first.tolist())
    alone = two_planted.judge(second)
    assert two_planted.part(alone) == alone


def test_two_clusters_are_parted_even_if_the_topic_of_one_speaks_for_the_other():
    search = search_in_two_planted(0.5)
    one, other = np.arange(20), np.arange(20, 50)
    assert not search._are_silent(one, other)
    part = search.part(search.judge(np.arange(50)))
    assert set(part.documents) == set(other.tolist())


def test_one_cluster_is_not_parted(planted):
    assert not planted._do_better_apart(np.arange(0, 40, 4), np.arange(40, 80, 4))
    whole = planted.judge(np.arange(0, 80, 4))
    assert planted.part(whole) == whole


def test_proposals_are_alike_if_most_of_the_smaller_one_is_in_both():
    one = Proposal(tuple(range(10)), 5.0)
    assert one.is_like(Proposal((7, 8, 9, 20), 1.0))
    assert not one.is_like(Proposal((8, 9, 20, 21), 1.0))
