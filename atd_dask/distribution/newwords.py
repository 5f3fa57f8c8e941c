"""Counts new words on a cluster, and how many of them training leads to expect."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from atd_dask.distribution.engine.runner import Runner
from atd_dask.kernels.blocks import Corpus, join_blocks
from atd_dask.kernels.model import Ints, WordTable
from atd_dask.kernels.newwords import admit_words, count_occurrences, measure_new_mass

# The counts of a task take as long to send as those of a few blocks to add up.
BLOCKS_PER_TASK = 16


def admit_new_words(runner: Runner, table: WordTable, batch: Corpus, train: Corpus) -> WordTable:
    """Return the table with probabilities for words that occur in `batch` but not in `train`."""
    n_words = max(table.n_words, batch.n_words)
    _, tokens = count_corpus(runner, batch, n_words)
    known = np.zeros(n_words, dtype=np.bool_)
    known[: table.n_words] = table.shared > 0.0
    if not np.any((tokens > 0) & ~known):
        return table
    mass = measure_new_mass(count_corpus(runner, train, n_words))
    return admit_words(table, tokens > 0, mass)


def count_corpus(runner: Runner, corpus: Corpus, n_words: int) -> Ints:
    """Return the document frequency and the count of each word of a corpus."""
    total = np.zeros((2, n_words), np.int64)
    pieces = pairwise(join_blocks(corpus, BLOCKS_PER_TASK).tolist())
    for part in runner.map(count_in_rows, (corpus, n_words), pieces):
        total += part
    return total


def count_in_rows(given: tuple[Corpus, int], rows: tuple[int, int]) -> Ints:
    corpus, n_words = given
    return count_occurrences(corpus.rows(*rows), n_words)
