"""New words: those that a batch has and training has not.

A model that gives them no probability cannot see what a new topic is about. They get the share of
tokens that new words have in normal documents, spread evenly over those of the batch, whatever the
topic of a document: that a document has many is no anomaly, but several that share one may be.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from atd_dask.kernels.model import Block, Floats, Ints, WordTable
from atd_dask.kernels.word_switches import complete_table

# In a few training documents most words are in one alone; the others must keep some probability.
MOST_MASS = 0.5


def count_occurrences(block: Block, n_words: int) -> Ints:
    """For each word how many documents have it, and how often they do: 2 × words."""
    documents = np.bincount(block.terms, minlength=n_words)
    tokens = np.zeros(n_words, np.int64)
    np.add.at(tokens, block.terms, block.counts)
    return np.stack((documents, tokens))


def measure_new_mass(occurrences: Ints) -> float:
    """Return the share of tokens that are new in a further normal document: in each of them, if
    training were all the others, the tokens of words that no other document has."""
    documents, tokens = occurrences
    n_tokens = int(tokens.sum())
    n_new = max(int(tokens[documents == 1].sum()), 1)
    return min(n_new / max(n_tokens, 1), MOST_MASS)


def admit_words(table: WordTable, occurring: NDArray[np.bool_], mass: float) -> WordTable:
    """Return a table that knows all words of a batch; those it knew keep their probabilities but
    for the `mass` of the new ones. There may be more words than the table has."""
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
