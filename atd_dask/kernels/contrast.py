"""The contrast search: finds groups of similar documents that no normal documents resemble.

A group grows from a document and its nearest neighbours in the batch. The direction of a group is
the mean of its vectors, with each word weighted by how many times more frequent it is in the group
than in normal documents. All documents, of the batch and normal, are scored by that direction;
members are scored leave-one-out. The documents above a cut are the next group. The cut is chosen to
maximise the excess of documents above it, which is the support of the group. This repeats as long
as support grows.

The search uses neither a topic model nor labels. So in a batch like the normal documents it finds
what it finds in as many held-out normal documents.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from atd_dask.kernels.excess import PSEUDOCOUNT, measure_excess
from atd_dask.kernels.jit import inner_kernel, kernel
from atd_dask.kernels.model import Block, Floats, Ints
from atd_dask.kernels.passes import add_up
from atd_dask.kernels.proposals import Proposal
from atd_dask.kernels.vectors import Direction, Ranking, VectorBatch, Vectors, WordIndex

# The neighbours that a group starts with, and the most rounds for which it grows.
NEIGHBOURS = 5
ROUNDS = 5

# The least number of documents above a cut, the number that is allowed even if it is more than half
# of the batch, and the most.
LEAST_DOCUMENTS = 3
FEW_DOCUMENTS = 50
MOST_DOCUMENTS = 4096

# Documents above a cut, and those within reach of a group, are at least this many times as frequent
# in the batch as among normal documents. A subject that is merely more popular than usual is not an
# anomaly. Anything from 3 to 10 finds about as many planted groups; small ratios raise more false
# alarms.
LEAST_RATIO = 5.0

# The least excess of words that rank starts. Many words have it by chance, but starts are cheap.
LEAST_EXCESS = 4.0

# The least score of a core document, relative to the mean score of the group.
CORE_SHARE = 0.5

# How many words a split is tried by, the least share of documents on each side, and the rounds of
# reassignment. A group is two if the cosine of the directions of its parts is below MOST_ALIKE.
PARTING_WORDS = 6
LEAST_SIDE = 0.15
PARTING_ROUNDS = 3
MOST_ALIKE = 0.05

# Avoids division by zero.
SHORTEST = 1e-300


@inner_kernel
def _log_ratio(n_with, n_docs, n_usual, n_normal):
    """Return the log of how many times more frequent a word is than in normal documents, or 0 if it
    is less frequent."""
    if n_with <= 0.0:
        return 0.0
    usual = (n_usual + PSEUDOCOUNT) / (n_normal + 2.0 * PSEUDOCOUNT)
    return max(math.log(n_with / (n_docs * usual)), 0.0)


@kernel
def _learn(indptr, terms, values, usual, n_normal):
    """Learn the direction of a group.

    Return its words in ascending order, their weights for documents outside the group and for
    normal documents, and the leave-one-out score of each member.
    """
    n_docs = len(indptr) - 1
    n_words = len(usual)
    total = np.zeros(n_words)
    n_with = np.zeros(n_words)
    for e in range(len(terms)):
        if values[e] > 0.0:
            total[terms[e]] += values[e]
            n_with[terms[e]] += 1.0
    n_own = np.int64(0)
    for word in range(n_words):
        if n_with[word] > 0.0:
            n_own += 1
    words = np.zeros(n_own, np.int64)
    outside = np.zeros(n_own)
    normal = np.zeros(n_own)
    without = np.zeros(n_words)
    n_own = np.int64(0)
    for word in range(n_words):
        if n_with[word] == 0.0:
            continue
        mean = total[word] / n_docs
        words[n_own] = word
        outside[n_own] = mean * _log_ratio(n_with[word], n_docs, usual[word], n_normal)
        # Normal documents are scored leave-one-out too: as if they were not among the normal ones.
        others = max(usual[word] - 1.0, 0.0)
        normal[n_own] = mean * _log_ratio(n_with[word], n_docs, others, n_normal - 1.0)
        without[word] = _log_ratio(n_with[word] - 1.0, n_docs - 1.0, usual[word], n_normal)
        n_own += 1
    own = np.zeros(n_docs)
    for d in range(n_docs):
        for e in range(indptr[d], indptr[d + 1]):
            word = terms[e]
            own[d] += values[e] * (total[word] - values[e]) / (n_docs - 1.0) * without[word]
    return words, outside, normal, own


@kernel
def _find_cut(scores, normal, known, weight, n_batch, n_normal, least, most):
    """Find the cut with the largest excess; return the number of documents above it and the excess.

    `scores` are in descending order, `normal` and `known` in ascending order. A known document
    counts as `weight` normal ones.
    """
    best = 0.0
    size = np.int64(0)
    i = len(normal)
    j = len(known)
    for k in range(1, most + 1):
        score = scores[k - 1]
        if k < len(scores) and scores[k] == score:
            continue
        while i > 0 and normal[i - 1] >= score:
            i -= 1
        while j > 0 and known[j - 1] >= score:
            j -= 1
        n_usual = (len(normal) - i) + weight * (len(known) - j)
        if k < least or k * n_normal < LEAST_RATIO * (n_usual + PSEUDOCOUNT) * n_batch:
            continue
        excess = measure_excess(float(k), n_batch, n_usual, n_normal)
        if excess > best:
            best = excess
            size = np.int64(k)
    return size, best


@kernel
def _find_reach(scores, normal, n_batch, n_normal):
    """Return the largest number of top-scoring documents that are frequent enough in the batch.

    `scores` are in descending order, `normal` in ascending order.
    """
    reach = np.int64(0)
    i = len(normal)
    for k in range(1, len(scores) + 1):
        while i > 0 and normal[i - 1] >= scores[k - 1]:
            i -= 1
        if k * n_normal >= LEAST_RATIO * (len(normal) - i + PSEUDOCOUNT) * n_batch:
            reach = np.int64(k)
    return reach


@kernel
def _compare_words(n_with, n_docs, usual, n_normal, least):
    """Return the excess of each word, and its log ratio if the excess is at least `least`."""
    excess = np.zeros(len(usual))
    ratios = np.zeros(len(usual))
    for word in range(len(usual)):
        if n_with[word] >= LEAST_DOCUMENTS:
            excess[word] = measure_excess(float(n_with[word]), n_docs, usual[word], n_normal)
            if excess[word] >= least:
                ratios[word] = _log_ratio(float(n_with[word]), n_docs, usual[word], n_normal)
    return excess, ratios


@dataclass(frozen=True)
class NormalVectors:
    """The normal documents that groups are compared with, indexed by word.

    Documents of groups found earlier count as normal from then on, as if they were as frequent
    among normal documents as in the batch. So the remains of a group are not found as another one,
    and all other documents are compared as before.
    """

    index: WordIndex
    n_with: Ints  # w: document frequencies
    known: WordIndex | None = None
    n_with_known: Ints | None = None
    weight: float = 0.0  # of each known document

    @classmethod
    def of(cls, block: Block, idf: Floats) -> NormalVectors:
        index = WordIndex.of(Vectors.of(block, idf), len(idf))
        return cls(index, np.bincount(block.terms, minlength=len(idf)))

    def with_known(self, vectors: Vectors, n_batch: int) -> NormalVectors:
        """Return a copy that counts these documents as known, next to `n_batch` others."""
        n_words = len(self.n_with)
        return replace(
            self,
            known=WordIndex.of(vectors, n_words),
            n_with_known=np.bincount(vectors.terms, minlength=n_words),
            weight=self.index.n_docs / max(n_batch, 1),
        )

    @cached_property
    def usual(self) -> Floats:
        """w: document frequencies, including the known documents by their weight."""
        if self.n_with_known is None:
            return self.n_with.astype(np.float64)
        return self.n_with + self.weight * self.n_with_known

    @property
    def n_docs(self) -> int:
        """The number of normal documents. Known documents do not count: they are missing from the
        batch too, and otherwise every other subject would seem to be in excess."""
        return self.index.n_docs

    def score(self, direction: Direction, most: int) -> NormalScores:
        """Score the normal documents, as far down as at most `most` of them can be above a cut."""
        scores = self.index.score(*direction)
        floor = 0.0
        if most < len(scores):
            scores = np.partition(scores, -most - 1)[-most - 1 :]
            floor = float(scores[0])
        known = np.zeros(0) if self.known is None else self.known.score(*direction)
        return NormalScores(np.sort(scores), np.sort(known), floor)


class NormalScores(NamedTuple):
    """The scores that a cut is judged by, each in ascending order. A document of the batch that
    does not score above `floor` has too many normal ones above it."""

    normal: Floats
    known: Floats
    floor: float


class Contrast(NamedTuple):
    """The direction of a group, and the scores of its members."""

    outside: Direction  # for documents of the batch
    normal: Direction
    own: Floats  # the leave-one-out score of each member


class Start(NamedTuple):
    """The first documents of a group, and how large it may grow."""

    documents: Ints  # ascending
    most: int


@dataclass(frozen=True)
class ContrastSearch:
    """Finds groups among the `available` documents of a batch."""

    batch: VectorBatch
    normal: NormalVectors
    available: NDArray[np.bool_]  # documents
    max_size: int | None = None

    @cached_property
    def n_docs(self) -> int:
        return int(np.count_nonzero(self.available))

    @property
    def most(self) -> int:
        half = max(self.n_docs // 2, FEW_DOCUMENTS)
        return min(half, MOST_DOCUMENTS, self.max_size or MOST_DOCUMENTS)

    def without(self, documents: Ints) -> ContrastSearch:
        """Return the same search without these documents."""
        available = self.available.copy()
        available[documents] = False
        return replace(self, available=available)

    def choose_starts(self, n: int) -> list[Start]:
        """Choose the documents whose words are most in excess, each with its nearest neighbours.

        Every other start finds its neighbours only by words in excess, and stays small.
        """
        n_with = self.batch.count_documents(self.available)
        _, ratios = self._compare(n_with, self.n_docs, LEAST_EXCESS)
        documents = self.batch.rank_unexpected(ratios, self.available, n).documents
        starts = []
        for number, document in enumerate(documents.tolist()):
            vector = self.batch.take(np.array([document]))
            by_excess = number % 2 == 1
            weights = vector.values * ratios[vector.terms] if by_excess else vector.values
            others = self.without(np.array([document])).available
            alone = Direction(vector.terms.astype(np.int64), weights)
            neighbours = self.batch.rank(alone, others, NEIGHBOURS).documents
            most = min(self.most, FEW_DOCUMENTS) if by_excess else self.most
            starts.append(Start(np.sort(np.append(neighbours, document)), most))
        return starts

    def grow(self, start: Start) -> Proposal | None:
        """Grow a group from a start."""
        search = replace(self, max_size=start.most)
        documents = start.documents
        best: Proposal | None = None
        for _ in range(ROUNDS):
            group = search.judge(documents)
            if group is None or (best is not None and group.support <= best.support):
                break
            best = group
            documents = np.sort(np.array(group.documents))
        return best

    def judge(self, documents: Ints) -> Proposal | None:
        """Score all documents by the direction of some; return those above the best cut, highest
        score first, or None if there is no cut."""
        if len(documents) < 2:
            return None
        contrast = self._learn(documents)
        ranking, size, support = self._cut(contrast, documents)
        if size == 0:
            return None
        return Proposal(tuple(ranking.documents[:size].tolist()), float(support))

    def part(self, group: Proposal) -> Proposal:
        """Return the better supported part of a group that is two groups, or else the group."""
        documents = np.sort(np.array(group.documents))
        best, least = group, MOST_ALIKE
        for word in self._find_parting_words(documents):
            mine = self._part_by(documents, word)
            sides = documents[mine], documents[~mine]
            if min(map(len, sides)) < LEAST_DOCUMENTS:
                continue
            alike = _compare_directions(*(self._learn(side).outside for side in sides))
            if alike >= least:
                continue
            judged = (self.without(rest).judge(side) for side, rest in (sides, sides[::-1]))
            parts = [part for part in judged if part is not None]
            if parts:
                best, least = max(parts, key=lambda part: part.support), alike
        return best

    def find_core(self, documents: Ints) -> Ints:
        """Return the documents that are most typical of a group, in ascending order.

        Documents below a share of the mean score are dropped, repeatedly.
        """
        for _ in range(ROUNDS):
            if len(documents) < LEAST_DOCUMENTS:
                break
            contrast = self._learn(documents)
            ranking, size, _ = self._cut(contrast, documents)
            least = CORE_SHARE * add_up(contrast.own) / len(documents)
            above = ranking.documents[:size][ranking.scores[:size] >= least]
            if np.array_equal(np.sort(above), documents):
                break
            documents = np.sort(above)
        return documents

    def find_reach(self, core: Ints) -> Ints:
        """Return the documents that may belong to a core, highest score first, as far down as such
        documents are frequent enough in the batch."""
        contrast = self._learn(core)
        beside = self._score_normal(contrast)
        ranking = self._rank(contrast, core, beside.floor)
        n_normal = float(self.normal.n_docs)
        reach = _find_reach(ranking.scores, beside.normal, self.n_docs, n_normal)
        return ranking.documents[:reach]

    def words(self, documents: Ints) -> Ints:
        """Return the words that set a group apart, most telling first."""
        words, weights = self._learn(documents).outside
        return words[np.argsort(-weights, kind="stable")][: np.count_nonzero(weights > 0.0)]

    def _find_parting_words(self, documents: Ints) -> list[int]:
        vectors = self.batch.take(documents)
        n_docs = len(documents)
        n_with = np.bincount(vectors.terms, minlength=len(self.normal.n_with))
        excess, ratios = self._compare(n_with, n_docs, LEAST_EXCESS)
        some = (n_with >= LEAST_SIDE * n_docs) & (n_with <= (1 - LEAST_SIDE) * n_docs)
        words = np.flatnonzero(some & (ratios > 0.0))
        ranked = words[np.argsort(-excess[words], kind="stable")]
        return [int(word) for word in ranked[:PARTING_WORDS]]

    def _part_by(self, documents: Ints, word: int) -> NDArray[np.bool_]:
        """Split documents into those nearer to the ones that have a word and those nearer to the
        rest, reassigning them for a few rounds; return a mask of the first part."""
        vectors = self.batch.take(documents)
        owners = np.repeat(np.arange(len(documents)), np.diff(vectors.indptr))
        mine = np.zeros(len(documents), dtype=np.bool_)
        mine[owners[vectors.terms == word]] = True
        index = WordIndex.of(vectors, len(self.normal.n_with))
        for _ in range(PARTING_ROUNDS):
            if min(np.count_nonzero(mine), np.count_nonzero(~mine)) < LEAST_DOCUMENTS:
                break
            near, far = (self._score_inside(documents, side, index) for side in (mine, ~mine))
            nearer = near >= far
            if np.array_equal(nearer, mine):
                break
            mine = nearer
        return mine

    def _score_inside(self, documents: Ints, side: NDArray[np.bool_], index: WordIndex) -> Floats:
        """Score documents by the direction of some of them, normalised to length 1."""
        contrast = self._learn(documents[side])
        scores = index.score(*contrast.outside)
        scores[side] = contrast.own
        length: float = _measure_length(contrast.outside.weights)
        return np.asarray(scores / max(length, SHORTEST))

    def _learn(self, documents: Ints) -> Contrast:
        vectors = self.batch.take(documents)
        words, outside, normal, own = _learn(
            *vectors.arrays, self.normal.usual, float(self.normal.n_docs)
        )
        return Contrast(Direction(words, outside), Direction(words, normal), own)

    def _rank(self, contrast: Contrast, documents: Ints, above: float) -> Ranking:
        """Rank the members of a group and all other available documents by score."""
        others = self.without(documents)
        outside = self.batch.rank(contrast.outside, others.available, self.most, above)
        inside = self.available[documents]
        own = Ranking(documents[inside], contrast.own[inside])
        return Ranking.merge((own, outside), self.most, above)

    def _score_normal(self, contrast: Contrast) -> NormalScores:
        """Score normal documents: no cut is valid with more of them above it than these."""
        most = self.most * self.normal.n_docs / (LEAST_RATIO * max(self.n_docs, 1))
        return self.normal.score(contrast.normal, int(most) + 1)

    def _cut(self, contrast: Contrast, documents: Ints) -> tuple[Ranking, int, float]:
        """Rank documents, and find the best cut: how many are above it, and their excess."""
        beside = self._score_normal(contrast)
        ranking = self._rank(contrast, documents, beside.floor)
        size, support = _find_cut(
            ranking.scores,
            beside.normal,
            beside.known,
            float(self.normal.weight),
            self.n_docs,
            float(self.normal.n_docs),
            LEAST_DOCUMENTS,
            len(ranking.scores),
        )
        return ranking, int(size), float(support)

    def _compare(self, n_with: Ints, n_docs: int, least: float) -> tuple[Floats, Floats]:
        excess, ratios = _compare_words(
            n_with, n_docs, self.normal.usual, float(self.normal.n_docs), least
        )
        return excess, ratios


@kernel
def _measure_length(weights):
    total = 0.0
    for weight in weights:
        total += weight * weight
    return math.sqrt(total)


@kernel
def _multiply(words, weights, other_words, other_weights):
    """Return the dot product of two directions."""
    total = 0.0
    j = np.int64(0)
    for i in range(len(words)):
        while j < len(other_words) and other_words[j] < words[i]:
            j += 1
        if j < len(other_words) and other_words[j] == words[i]:
            total += weights[i] * other_weights[j]
    return total


def _compare_directions(one: Direction, other: Direction) -> float:
    """Return the cosine of the angle between two directions."""
    lengths = _measure_length(one.weights) * _measure_length(other.weights)
    return float(_multiply(*one, *other) / max(lengths, SHORTEST))
