from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from atd_dask.kernels.blocks import MemoryCorpus
from atd_dask.kernels.seeding import SEED_DOCUMENTS, seed_topics
from tests.kernels.strategies import make_block
from tests.kernels.test_statistics import dense


def seed_dense(counts, n_topics, seed=1, restart=0):
    corpus = MemoryCorpus(make_block(counts), counts.shape[1])
    read = []

    def read_one(document):
        read.append(document)
        return corpus.rows(document, document + 1)

    seeds = seed_topics(corpus.lengths(), read_one, counts.shape[1], n_topics, seed, restart)
    return seeds, read


@given(
    seed=st.integers(0, 2**32 - 1),
    n_docs=st.integers(1, 40),
    n_topics=st.integers(1, 50),
)
def test_each_topic_has_documents_of_its_own(seed, n_docs, n_topics):
    counts = np.random.default_rng(seed).poisson(0.3, (n_docs, 7))
    counts[0, 0] += 1
    with_words = np.flatnonzero(counts.sum(axis=1))
    seeds, read = seed_dense(counts, n_topics, seed)
    n_topics = min(n_topics, len(with_words))
    n_each = min(SEED_DOCUMENTS, len(with_words) // n_topics)
    assert seeds.n_topics == n_topics
    assert len(read) == len(set(read)) == n_topics * n_each
    assert set(read) <= set(with_words.tolist())
    groups = np.array(read).reshape(n_topics, n_each)
    np.testing.assert_array_equal(dense(seeds, 7), counts[groups].sum(axis=1))
    assert seeds.tokens.tolist() == counts[groups].sum(axis=(1, 2)).tolist()
    assert np.all(seeds.tokens > 0)


def test_seeds_depend_on_the_seed_and_the_restart_alone():
    counts = np.random.default_rng(0).poisson(1.0, (60, 7)) + 1
    _, first = seed_dense(counts, 6, seed=1, restart=0)
    _, again = seed_dense(counts, 6, seed=1, restart=0)
    _, other_restart = seed_dense(counts, 6, seed=1, restart=1)
    _, other_seed = seed_dense(counts, 6, seed=2, restart=0)
    assert first == again
    assert len({tuple(first), tuple(other_restart), tuple(other_seed)}) == 3
