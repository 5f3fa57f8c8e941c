"""Where clusters may start: words that more documents of the batch have than normal ones.

How often a word stands in a document does not matter, so a document that repeats one word is
nothing special. The documents of an unexpected word, those with most unexpected words first, are
the start of a cluster.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from atd_dask.kernels.excess import UNSEEN, measure_excess
from atd_dask.kernels.jit import kernel
from atd_dask.kernels.model import Block, Floats, Ints

# The least excess of an unexpected word, and how many documents must have it. Some words get there
# by chance: a start costs little, and its support is judged later.
LEAST_EXCESS = 8.0
LEAST_DOCUMENTS = 3

# Documents of a word with which a cluster starts, and how much of them two words may share.
MOST_DOCUMENTS = 40
MOST_SHARED = 0.7


@kernel
def _compare_frequencies(n_with, n_docs, n_with_normal, n_normal, excess, lifts):
    for word in range(len(n_with)):
        if n_with[word] < LEAST_DOCUMENTS:
            continue
        excess[word] = measure_excess(n_with[word], n_docs, n_with_normal[word], n_normal)
        if excess[word] >= LEAST_EXCESS:
            usual = (n_with_normal[word] + UNSEEN) / (n_normal + 2 * UNSEEN)
            lifts[word] = math.log(n_with[word] / (n_docs * usual))


@kernel
def _score_documents(lifts, indptr, terms, scores):
    for d in range(len(scores)):
        total = 0.0
        for e in range(indptr[d], indptr[d + 1]):
            total += lifts[terms[e]]
        scores[d] = total / math.sqrt(max(indptr[d + 1] - indptr[d], 1))


@dataclass(frozen=True)
class UnexpectedWords:
    """Words of a batch that normal documents have less often."""

    excess: Floats  # words
    lifts: Floats  # words: log of how many times more documents have it; 0 if it is as expected

    @classmethod
    def of(
        cls, n_with: Ints, n_docs: int, n_with_normal: Ints, n_normal: int, shared: Floats
    ) -> UnexpectedWords:
        """Numbers of documents that have each word, of so many; a word that the model does not know
        is passed over."""
        excess, lifts = np.zeros(len(shared)), np.zeros(len(shared))
        _compare_frequencies(n_with, n_docs, n_with_normal, n_normal, excess, lifts)
        lifts[shared == 0.0] = 0.0
        return cls(excess, lifts)

    def first(self, n: int) -> Ints:
        """The most unexpected words."""
        words = np.flatnonzero(self.lifts > 0.0)
        return words[np.argsort(-self.excess[words], kind="stable")[:n]]


def count_documents(block: Block, available: NDArray[np.bool_], n_words: int) -> Ints:
    """How many of the available documents have each word."""
    counted = np.repeat(available, np.diff(block.indptr))
    return np.bincount(block.terms[counted], minlength=n_words)


@dataclass(frozen=True, slots=True)
class Having:
    """Documents that have a word, those with most unexpected words first."""

    rows: Ints
    scores: Floats

    @classmethod
    def concatenate(cls, parts: Sequence[Having]) -> Having:
        return cls(
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.scores for part in parts]),
        )

    def first(self, n: int) -> Having:
        order = np.lexsort((self.rows, -self.scores))[:n]
        return Having(self.rows[order], self.scores[order])


def find_having(
    block: Block, available: NDArray[np.bool_], lifts: Floats, words: Ints, start: int = 0
) -> list[Having]:
    """For each word the available documents that have it, at most `MOST_DOCUMENTS`; rows are
    counted from `start` on."""
    scores = np.zeros(len(block))
    _score_documents(lifts, block.indptr, block.terms, scores)
    place = np.full(len(lifts), -1)
    place[words] = np.arange(len(words))
    owners = np.repeat(np.arange(len(block)), np.diff(block.indptr))
    wanted = np.flatnonzero((place[block.terms] >= 0) & available[owners])
    rows, places = owners[wanted], place[block.terms[wanted]]
    found = []
    for number in range(len(words)):
        mine = rows[places == number]
        found.append(Having(start + mine, scores[mine]).first(MOST_DOCUMENTS))
    return found


def choose_apart(sets: Sequence[Ints], n: int) -> list[Ints]:
    """The first n sets of documents that have not too much in common with those before."""
    chosen: list[Ints] = []
    for documents in sets:
        if len(chosen) == n:
            break
        if all(_share(documents, other) <= MOST_SHARED for other in chosen):
            chosen.append(documents)
    return chosen


def _share(one: Ints, other: Ints) -> float:
    return len(np.intersect1d(one, other)) / max(len(one), len(other), 1)
