"""Models with some topics dropped or split."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from atd_dask.kernels.model import WordTable
from atd_dask.kernels.passes import Pass


def drop_least(table: WordTable, result: Pass, n_gone: int) -> WordTable:
    """Return the model without the topics of least proportion."""
    gone = np.zeros(table.n_topics, dtype=np.bool_)
    gone[np.argsort(result.expected.proportion, kind="stable")[:n_gone]] = True
    return drop_topics(table, gone)


def drop_topics(table: WordTable, gone: NDArray[np.bool_]) -> WordTable:
    """Return the model without the topics where `gone` is true; the others keep their words."""
    names = np.cumsum(~gone) - 1
    stays = ~gone[table.topics]
    words = np.repeat(np.arange(table.n_words), np.diff(table.indptr))[stays]
    sizes = np.bincount(words, minlength=table.n_words)
    return WordTable(
        int((~gone).sum()),
        table.shared,
        np.concatenate(([0], np.cumsum(sizes))),
        names[table.topics[stays]].astype(np.int32),
        table.probabilities[stays],
        table.excess[stays],
        table.log_ratio[stays],
    )


def split_topics(table: WordTable, n_split: int, stream: np.random.Generator) -> WordTable:
    """Return the model with so many more topics: each has about half of the words of another one,
    which loses them. Topics with more words are drawn more often, and each word moves or stays at
    random.

    Documents decide which half they are closer to. The probabilities of a half add up again after
    the next estimate.
    """
    weights = table.specific_words() + 1.0
    drawn = stream.choice(table.n_topics, n_split, replace=False, p=weights / weights.sum())
    names = np.arange(table.n_topics)
    names[drawn] = table.n_topics + np.arange(n_split)
    moves = stream.random(len(table.topics)) < 0.5
    topics = np.where(moves, names[table.topics], table.topics).astype(np.int32)
    words = np.repeat(np.arange(table.n_words), np.diff(table.indptr))
    order = np.lexsort((topics, words))
    return table._replace(
        n_topics=table.n_topics + n_split,
        topics=topics[order],
        probabilities=table.probabilities[order],
        excess=table.excess[order],
        log_ratio=table.log_ratio[order],
    )
