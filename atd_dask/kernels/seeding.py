"""Initialises training: the documents that each topic starts from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from atd_dask.kernels.model import Block, Ints
from atd_dask.kernels.statistics import ExpectedCounts, count_words
from atd_dask.kernels.streams import open_stream

SEED_DOCUMENTS = 5


def seed_topics(
    lengths: Ints,
    read: Callable[[int], Block],
    n_words: int,
    n_topics: int,
    seed: int,
    restart: int,
) -> ExpectedCounts:
    """Initialise each topic from a few documents, drawn without replacement from those with words.

    There are at most as many topics as such documents. `read` returns one document.
    """
    documents = np.flatnonzero(lengths > 0)
    n_topics = min(n_topics, len(documents))
    n_each = min(SEED_DOCUMENTS, len(documents) // n_topics)
    order = open_stream(seed, f"seed documents of restart {restart}").permutation(documents)
    indptr, words, mass, tokens = [0], [], [], []
    for topic in range(n_topics):
        totals = np.zeros(n_words, dtype=np.int64)
        for document in order[topic * n_each : (topic + 1) * n_each]:
            totals += count_words(read(int(document)), n_words)
        mine = np.flatnonzero(totals)
        words.append(mine.astype(np.int32))
        mass.append(totals[mine].astype(np.float64))
        tokens.append(int(totals.sum()))
        indptr.append(indptr[-1] + len(mine))
    return ExpectedCounts(
        np.array(indptr),
        np.concatenate(words),
        np.concatenate(mass),
        np.array(tokens),
        np.zeros(n_topics),
    )
