"""Counts new words on a cluster, and how many of them training leads to expect."""

from __future__ import annotations

import numpy as np

from atd_dask.distribution.engine.runner import Runner
from atd_dask.kernels.blocks import Corpus
from atd_dask.kernels.model import Ints, WordTable
from atd_dask.kernels.newwords import admit_words, count_occurrences, measure_new_mass


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
    blocks = range(len(corpus.block_starts) - 1)
    for part in runner.map(count_in_block, (corpus, n_words), blocks):
        total += part
    return total


def count_in_block(given: tuple[Corpus, int], index: int) -> Ints:
    corpus, n_words = given
    return count_occurrences(corpus.block(index), n_words)
