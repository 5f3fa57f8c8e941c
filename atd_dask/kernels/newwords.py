"""New words: those that occur in the batch but not in training.

A model that gives them no probability cannot see what a new topic is about. They get the share of
tokens that new words have in normal documents, spread evenly over the new words of the batch,
whatever the topic of a document: one document with many of them is no anomaly, but several
documents that share one may be.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from atd_dask.kernels.model import Block, Floats, Ints, WordTable
from atd_dask.kernels.word_switches import complete_table

# With few training documents most words occur in one only; the others must keep some probability.
MOST_MASS = 0.5


def count_occurrences(block: Block, n_words: int) -> Ints:
    """Return the document frequency and the count of each word, 2 × words."""
    documents = np.bincount(block.terms, minlength=n_words)
    tokens = np.bincount(block.terms, weights=block.counts, minlength=n_words)
    return np.stack((documents, tokens.astype(np.int64)))


def measure_new_mass(occurrences: Ints) -> float:
    """Estimate the share of new tokens in another normal document by leave-one-out: the tokens of
    words that occur in no other document."""
    documents, tokens = occurrences
    n_tokens = int(tokens.sum())
    n_new = max(int(tokens[documents == 1].sum()), 1)
    return min(n_new / max(n_tokens, 1), MOST_MASS)


def admit_words(table: WordTable, occurring: NDArray[np.bool_], mass: float) -> WordTable:
    """Return a table that knows all words of a batch. Known words are scaled down by the `mass` of
    the new ones. There may be more words than the table has."""
    n_more = len(occurring) - table.n_words
    shared: Floats = np.concatenate((table.shared, np.zeros(n_more)))
    new = occurring & (shared == 0.0)
    if not new.any():
        return table
    shared *= 1.0 - mass
    shared[new] = mass / np.count_nonzero(new)
    return complete_table(
        table.n_topics,
        shared,
        np.concatenate((table.indptr, np.full(n_more, table.indptr[-1]))),
        table.topics,
        table.probabilities * (1.0 - mass),
    )
