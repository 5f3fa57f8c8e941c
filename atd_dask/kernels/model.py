"""The data structures of a topic model: a shared distribution, and where each topic differs.

Most words of a topic follow the shared model, so only the topic-specific probabilities are stored,
grouped by word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Topics = NDArray[np.int32]


def take_rows(indptr: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Select rows of a CSR matrix; return their row pointers, and the indices of their entries."""
    sizes = np.diff(indptr)[rows]
    ends = np.concatenate(([0], np.cumsum(sizes)))
    return ends, np.arange(ends[-1]) + np.repeat(indptr[rows] - ends[:-1], sizes)


class Rows(NamedTuple):
    """Documents as rows of a CSR matrix, for kernels."""

    indptr: Ints  # documents + 1, from 0
    terms: NDArray[np.int32]  # entries
    counts: NDArray[np.int32]  # entries


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive documents as rows of a CSR matrix: the unit of work on a corpus."""

    indptr: Ints  # documents + 1, from 0
    terms: NDArray[np.int32]  # entries
    counts: NDArray[np.int32]  # entries
    start: int = 0  # the number of the first document in its corpus

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __sizeof__(self) -> int:
        return sum(array.nbytes for array in self.arrays)

    def take(self, documents: Ints) -> Block:
        """Return some documents, in the given order."""
        indptr, entries = take_rows(self.indptr, documents)
        return Block(indptr, self.terms[entries], self.counts[entries])

    def part(self, start: int, stop: int) -> Block:
        """Return the documents from `start` to before `stop`."""
        first, last = self.indptr[start], self.indptr[stop]
        return Block(
            self.indptr[start : stop + 1] - first,
            self.terms[first:last],
            self.counts[first:last],
            self.start + start,
        )

    @classmethod
    def concatenate(cls, parts: Sequence[Block]) -> Block:
        """Return the documents of all parts, one after the other."""
        sizes = [np.diff(part.indptr) for part in parts]
        return cls(
            np.concatenate((np.zeros(1, np.int64), np.cumsum(np.concatenate(sizes)))),
            np.concatenate([part.terms for part in parts]),
            np.concatenate([part.counts for part in parts]),
        )

    @property
    def arrays(self) -> Rows:
        """The documents for kernels."""
        return Rows(self.indptr, self.terms, self.counts)


class HeldTable(Protocol):
    """Word probabilities of all topics, which may be elsewhere."""

    @property
    def n_topics(self) -> int: ...

    def read(self) -> WordTable: ...


class WordTable(NamedTuple):
    """Word probabilities of all topics: `shared` (β₀) unless the topic has its own (β where u = 1).

    For word n, the topics `topics[indptr[n]:indptr[n + 1]]`, in ascending order, have their
    probabilities in `probabilities`; `excess` is their difference to the shared one, and
    `log_ratio` is log(β/β₀). A word with shared probability 0 never occurred in training and is
    unknown.
    """

    n_topics: int
    shared: Floats  # words
    indptr: Ints  # words + 1
    topics: Topics  # specific
    probabilities: Floats  # specific
    excess: Floats  # specific
    log_ratio: Floats  # specific

    @property
    def n_words(self) -> int:
        return len(self.shared)

    def read(self) -> Self:
        return self

    def specific_words(self) -> Ints:
        """Return N_j, the number of specific words of each topic."""
        return np.bincount(self.topics, minlength=self.n_topics)

    def dense(self) -> Floats:
        """Return the probabilities as a dense array, topics × words."""
        table = np.tile(self.shared, (self.n_topics, 1))
        words = np.repeat(np.arange(self.n_words), np.diff(self.indptr))
        table[self.topics, words] = self.probabilities
        return table


@dataclass(frozen=True, slots=True)
class Proportions:
    """Active topics and proportions of consecutive documents: the switches v and θ where v = 1.

    A document without entries has no topic: it has no known words, or has not been fitted yet.
    """

    indptr: Ints  # documents + 1
    topics: Topics  # active, ascending within a document
    theta: Floats  # active

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __sizeof__(self) -> int:
        return sum(array.nbytes for array in self.arrays)

    @classmethod
    def empty(cls, n_docs: int) -> Proportions:
        return cls(np.zeros(n_docs + 1, np.int64), np.zeros(0, np.int32), np.zeros(0))

    @classmethod
    def concatenate(cls, parts: Sequence[Proportions]) -> Proportions:
        if len(parts) == 1:
            return parts[0]
        sizes = np.concatenate([np.diff(part.indptr) for part in parts])
        return cls(
            np.concatenate(([0], np.cumsum(sizes))),
            np.concatenate([part.topics for part in parts]),
            np.concatenate([part.theta for part in parts]),
        )

    def take(self, documents: Ints) -> Proportions:
        """Return some documents, in the given order."""
        indptr, entries = take_rows(self.indptr, documents)
        return Proportions(indptr, self.topics[entries], self.theta[entries])

    def part(self, start: int, stop: int) -> Proportions:
        """Return the documents from `start` to before `stop`."""
        first, last = self.indptr[start], self.indptr[stop]
        return Proportions(
            self.indptr[start : stop + 1] - first, self.topics[first:last], self.theta[first:last]
        )

    @property
    def arrays(self) -> tuple[Ints, Topics, Floats]:
        return self.indptr, self.topics, self.theta

    def dense(self, n_topics: int) -> Floats:
        """Return the proportions as a dense array, documents × topics."""
        theta = np.zeros((len(self), n_topics))
        theta[np.repeat(np.arange(len(self)), np.diff(self.indptr)), self.topics] = self.theta
        return theta
