"""Counts, and models of them, for tests of the estimators."""

from __future__ import annotations

import numpy as np

from atd_dask import ParsimoniousTopicModel
from atd_dask.documents import CountBatch
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.corpus_writer import CorpusWriter
from tests.kernels.strategies import make_block
from tests.storage.test_checkpoints import check_same


def make_counts(n_docs=60, n_words=18, n_topics=3):
    """Documents about one of a few topics each; every word occurs."""
    rng = np.random.default_rng(4)
    topics = rng.dirichlet(np.full(n_words, 0.15), n_topics) * 0.9 + 0.1 / n_words
    counts = np.stack([rng.multinomial(50, topics[d % n_topics]) for d in range(n_docs)])
    counts[0] += counts.sum(axis=0) == 0
    return counts


COUNTS = make_counts()
WORDS = tuple(f"word {n:02}" for n in range(COUNTS.shape[1]))


def make_model(**settings):
    return ParsimoniousTopicModel((2, 5), restarts=2, **settings)


def as_mappings(counts):
    return [{WORDS[n]: int(count) for n, count in enumerate(row) if count > 0} for row in counts]


def write_store(path):
    block = make_block(COUNTS)
    with CorpusWriter(path, WORDS) as writer:
        ids = [str(d) for d in range(len(COUNTS))]
        writer.append(CountBatch(ids, [()] * len(ids), *block.arrays))
    return CorpusStore.open(path)


def check_same_topics(model, other):
    check_same(model.model_.table, other.model_.table)
    check_same(model.model_.restarts, other.model_.restarts)
    assert model.vocabulary_ == other.vocabulary_
