"""Tf-idf vectors of documents, by document and by word.

A vector has the weight (1 + log count) · idf for each word, and length 1. With the logarithm, a
document that repeats one word is nothing special. A word that occurs in only one document says
nothing about which documents are alike, and has weight 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from atd_dask.kernels.jit import kernel
from atd_dask.kernels.model import Block, Floats, Ints, Topics, take_rows

# w = words, e = entries by document, p = entries by word


@kernel
def weigh_words(n_with, n_docs):
    """Return the idf of each word, given that `n_with` of `n_docs` documents have it."""
    weights = np.zeros(len(n_with))
    for word in range(len(n_with)):
        if n_with[word] >= 2:
            weights[word] = math.log((n_docs + 1.0) / (n_with[word] + 1.0))
    return weights


@kernel
def _weigh_entries(indptr, terms, counts, idf):
    values = np.zeros(len(terms))
    for d in range(len(indptr) - 1):
        length = 0.0
        for e in range(indptr[d], indptr[d + 1]):
            values[e] = (1.0 + math.log(counts[e])) * idf[terms[e]]
            length += values[e] * values[e]
        if length > 0.0:
            for e in range(indptr[d], indptr[d + 1]):
                values[e] /= math.sqrt(length)
    return values


@kernel
def _sort_by_word(indptr, terms, values, n_words):
    """Group the entries by word, with documents in ascending order."""
    starts = np.zeros(n_words + 1, np.int64)
    for e in range(len(terms)):
        if values[e] > 0.0:
            starts[terms[e] + 1] += 1
    for word in range(n_words):
        starts[word + 1] += starts[word]
    filled = starts.copy()
    documents = np.zeros(starts[n_words], np.int32)
    weights = np.zeros(starts[n_words])
    for d in range(len(indptr) - 1):
        for e in range(indptr[d], indptr[d + 1]):
            if values[e] > 0.0:
                p = filled[terms[e]]
                documents[p] = d
                weights[p] = values[e]
                filled[terms[e]] += 1
    return starts, documents, weights


@kernel
def _add_scores(starts, documents, weights, words, direction, scores):
    for i in range(len(words)):
        if direction[i] == 0.0:
            continue
        for p in range(starts[words[i]], starts[words[i] + 1]):
            scores[documents[p]] += direction[i] * weights[p]


@dataclass(frozen=True, slots=True)
class Vectors:
    """The vectors of some documents."""

    indptr: Ints  # documents + 1
    terms: Topics  # e, ascending within a document
    values: Floats  # e

    @classmethod
    def of(cls, block: Block, idf: Floats) -> Vectors:
        values = _weigh_entries(*block.arrays, idf)
        return cls(block.indptr, block.terms, values)

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __sizeof__(self) -> int:
        return sum(array.nbytes for array in self.arrays)

    def take(self, documents: Ints) -> Vectors:
        """Return some documents, in the given order."""
        indptr, entries = take_rows(self.indptr, documents)
        return Vectors(indptr, self.terms[entries], self.values[entries])

    @property
    def arrays(self) -> tuple[Ints, Topics, Floats]:
        return self.indptr, self.terms, self.values


@dataclass(frozen=True, slots=True)
class WordIndex:
    """The vectors of documents, by word."""

    n_docs: int
    starts: Ints  # w + 1
    documents: Topics  # p, ascending within a word
    weights: Floats  # p

    @classmethod
    def of(cls, vectors: Vectors, n_words: int) -> WordIndex:
        return cls(len(vectors), *_sort_by_word(*vectors.arrays, n_words))

    def __sizeof__(self) -> int:
        return self.starts.nbytes + self.documents.nbytes + self.weights.nbytes

    def score(self, words: Ints, direction: Floats) -> Floats:
        """Return the dot product of every document with a sparse direction.

        The words of the direction are in ascending order, so that a sum is added up in the same
        order wherever a document is stored.
        """
        scores = np.zeros(self.n_docs)
        _add_scores(self.starts, self.documents, self.weights, words, direction, scores)
        return scores


@kernel
def add_ratios(indptr, terms, ratios):
    """Return how far the words of each document are in excess: the sum of their log ratios, divided
    by the square root of their number."""
    scores = np.zeros(len(indptr) - 1)
    for d in range(len(scores)):
        total = 0.0
        for e in range(indptr[d], indptr[d + 1]):
            total += ratios[terms[e]]
        scores[d] = total / math.sqrt(max(indptr[d + 1] - indptr[d], 1))
    return scores


class Direction(NamedTuple):
    """A sparse vector that documents are scored by; its words are in ascending order."""

    words: Ints
    weights: Floats


class Ranking(NamedTuple):
    """Documents of a batch in descending order of score; ties in row order."""

    documents: Ints
    scores: Floats

    @classmethod
    def of(cls, documents: Ints, scores: Floats, most: int, above: float = 0.0) -> Ranking:
        """Rank the documents with a score above `above`, and keep the first `most`."""
        chosen = np.flatnonzero(scores > above)
        if most < len(chosen):  # all that are needed, with ties; few of them are sorted
            lowest = np.partition(scores[chosen], -most)[-most] if most else np.inf
            chosen = chosen[scores[chosen] >= lowest]
        documents, scores = documents[chosen], scores[chosen]
        order = np.lexsort((documents, -scores))[:most]
        return cls(documents[order], scores[order])

    @classmethod
    def merge(cls, parts: Sequence[Ranking], most: int, above: float = 0.0) -> Ranking:
        return cls.of(
            np.concatenate([part.documents for part in parts]),
            np.concatenate([part.scores for part in parts]),
            most,
            above,
        )


class VectorBatch(Protocol):
    """The documents to find groups in, in memory or in shards."""

    def __len__(self) -> int: ...

    def take(self, documents: Ints) -> Vectors:
        """Return some documents, in the given order."""

    def count_documents(self, available: NDArray[np.bool_]) -> Ints:
        """Return the document frequencies of the available documents."""

    def rank(
        self, direction: Direction, available: NDArray[np.bool_], most: int, above: float = 0.0
    ) -> Ranking:
        """Return the available documents with the highest scores above `above`."""

    def rank_unexpected(self, ratios: Floats, available: NDArray[np.bool_], most: int) -> Ranking:
        """Return the available documents whose words are most in excess."""


@dataclass(frozen=True)
class WholeVectors:
    """A batch in memory."""

    vectors: Vectors
    n_words: int

    @cached_property
    def index(self) -> WordIndex:
        return WordIndex.of(self.vectors, self.n_words)

    def __len__(self) -> int:
        return len(self.vectors)

    def __sizeof__(self) -> int:
        return 2 * self.vectors.__sizeof__()

    def take(self, documents: Ints) -> Vectors:
        return self.vectors.take(documents)

    def count_documents(self, available: NDArray[np.bool_]) -> Ints:
        counted = np.repeat(available, np.diff(self.vectors.indptr))
        return np.bincount(self.vectors.terms[counted], minlength=self.n_words)

    def rank(
        self, direction: Direction, available: NDArray[np.bool_], most: int, above: float = 0.0
    ) -> Ranking:
        return self._rank(self.index.score(*direction), available, most, above)

    def rank_unexpected(self, ratios: Floats, available: NDArray[np.bool_], most: int) -> Ranking:
        scores = add_ratios(self.vectors.indptr, self.vectors.terms, ratios)
        return self._rank(scores, available, most)

    def _rank(
        self, scores: Floats, available: NDArray[np.bool_], most: int, above: float = 0.0
    ) -> Ranking:
        rows = np.flatnonzero(available)
        return Ranking.of(rows, scores[rows], most, above)


def find_idf(n_with_batch: Ints, n_batch: int, n_with_normal: Ints, n_normal: int) -> Floats:
    """Compute the idf of each word over the batch and the normal documents together."""
    idf: Floats = weigh_words(n_with_batch + n_with_normal, n_batch + n_normal)
    return idf
