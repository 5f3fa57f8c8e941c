"""A batch that is too large for one worker, in shards that stay where they were fitted.

A shard is some consecutive blocks of the corpus, which a task reads and fits. Every query goes to
all shards at once, and the answers are combined in order. A document is judged in the same way
wherever it is, so the result is that of a batch in one place, byte for byte. The few documents of
interest are cached in this process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from atd_dask.distribution.engine.alignment import align
from atd_dask.distribution.engine.counters import count
from atd_dask.distribution.engine.runner import Runner
from atd_dask.kernels.alternative import Alternative
from atd_dask.kernels.blocks import Corpus, join_blocks
from atd_dask.kernels.donors import Similar, find_similar
from atd_dask.kernels.fitters import Fitter
from atd_dask.kernels.model import Floats, Ints
from atd_dask.kernels.next_document import Batch, Candidate, Sample, SearchableBatch

# A query with one new topic takes some milliseconds for this many blocks of 2**17 entries.
BLOCKS_PER_SHARD = 16


@dataclass(frozen=True)
class Shard:
    """Consecutive documents of a batch. It is immutable: Dask may copy it at any time."""

    batch: Batch
    start: int

    def __sizeof__(self) -> int:
        return self.batch.__sizeof__()

    def among(self, gone: Ints) -> NDArray[np.bool_]:
        """Return a mask of all documents except those that are gone."""
        mask = np.ones(len(self.batch), dtype=np.bool_)
        mask[gone] = False
        return mask


class NewTopic(NamedTuple):
    """A new topic by its specific words, small enough to be sent with every task."""

    words: Ints
    probabilities: Floats
    rest: float  # the factor on the shared probabilities of other words

    @classmethod
    def of(cls, topic: Alternative) -> NewTopic:
        words = np.flatnonzero(topic.specific)
        return cls(words, topic.probabilities[words], topic.rest)

    def complete(self, shared: Floats) -> Alternative:
        probabilities = shared * self.rest
        probabilities[self.words] = self.probabilities
        specific = np.zeros(len(shared), dtype=np.bool_)
        specific[self.words] = True
        nothing = np.zeros(0)
        return Alternative(
            probabilities, specific, nothing, nothing, nothing, np.nan, nothing, self.rest
        )


class Question(NamedTuple):
    """A query: which document fits a new topic best?"""

    topic: NewTopic
    gone: Ints  # rows of the shard that are not available
    least: float  # smaller gains are ignored


def fit_shard(given: tuple[Corpus, Fitter], rows: tuple[int, int]) -> Shard:
    corpus, fitter = given
    block = corpus.rows(*rows)
    count(documents_scored=len(block))
    return Shard(fitter.batch(block, fitter.fit(block), fixed=True), rows[0])


def next_in_shard(
    shard: Shard, questions: Sequence[Question]
) -> list[tuple[Candidate, Sample] | None]:
    """Return the best candidate for each question, with its document."""
    answers: list[tuple[Candidate, Sample] | None] = []
    shared = shard.batch.context.table.shared
    for topic, gone, least in questions:
        best = shard.batch.next_document(topic.complete(shared), shard.among(gone), least)
        if best is None:
            answers.append(None)
            continue
        named = Candidate(shard.start + best.document, best.gain, best.share)
        answers.append((named, shard.batch.take(np.array([best.document]))))
    return answers


def gains_in_shard(shard: Shard, question: Question) -> tuple[Ints, Floats]:
    """Return the rows whose gains exceed the least one, and their gains."""
    topic, gone, least = question
    whole = topic.complete(shard.batch.context.table.shared)
    gains = shard.batch.gains_above(whole, shard.among(gone), least)
    rows = np.flatnonzero(gains > least)
    return shard.start + rows, gains[rows]


def least_likely_in_shard(shard: Shard, question: tuple[Ints, int]) -> tuple[Ints, Floats]:
    gone, n_docs = question
    rows, likelihoods = shard.batch.least_likely(shard.among(gone), n_docs)
    return shard.start + rows, likelihoods


def similar_in_shard(shard: Shard, question: tuple[Ints, Floats, int, int]) -> list[Similar]:
    gone, theta, nearest, before = align(question)
    usable = shard.among(gone)
    return find_similar(shard.batch.fit, usable, theta, nearest, before + shard.start)


def take_from_shard(shard: Shard, rows: Ints) -> Sample:
    return shard.batch.take(rows)


class ShardedBatch(SearchableBatch):
    """A batch in shards, on the workers of a cluster or in this process."""

    def __init__(self, runner: Runner, corpus: Corpus, fitter: Fitter) -> None:
        self._runner = runner
        self._fitter = fitter
        self._starts = join_blocks(corpus, BLOCKS_PER_SHARD)
        pieces = list(pairwise(self._starts.tolist()))
        self._shards = runner.keep(fit_shard, (corpus, fitter), pieces)
        self._known: dict[int, Sample] = {}  # documents fetched before
        self._latest: dict[int, list[int]] = {}  # by shard, its last candidates
        self._trained: tuple[tuple[int, ...], Alternative] | None = None

    def close(self) -> None:
        self._runner.drop(self._shards)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def _numbers(self) -> range:
        return range(len(self._starts) - 1)

    def _gone(self, available: NDArray[np.bool_]) -> list[Ints]:
        """Return the rows that are not available, for each shard."""
        rows = np.flatnonzero(~available)
        cuts = np.searchsorted(rows, self._starts)
        return [rows[cuts[n] : cuts[n + 1]] - self._starts[n] for n in self._numbers()]

    def fetch(self, rows: Ints) -> Sample:
        """Fetch some documents, in ascending order, from their shards."""
        homes = np.searchsorted(self._starts, rows, side="right") - 1
        asked = [
            (number, rows[homes == number] - self._starts[number])
            for number in np.unique(homes).tolist()
        ]
        return Sample.concatenate(self._runner.ask(take_from_shard, self._shards, asked))

    def take(self, documents: Ints) -> Sample:
        """Return some documents; those fetched before are cached."""
        wanted = documents.tolist()
        unknown = np.array(sorted(set(wanted).difference(self._known)))
        if len(unknown) > 0:
            fetched = self.fetch(unknown)
            for index, row in enumerate(unknown.tolist()):
                self._known[row] = fetched.take(np.array([index]))
        return Sample.concatenate([self._known[row] for row in wanted])

    def train(self, documents: Ints) -> Alternative:
        """Learn the topic of a cluster; the last one is cached, as it is often needed again."""
        rows = tuple(documents.tolist())
        if self._trained is None or self._trained[0] != rows:
            self._trained = rows, self._fitter.train(self.take(documents).block)
        return self._trained[1]

    def least_likely(self, available: NDArray[np.bool_], n_docs: int) -> tuple[Ints, Floats]:
        asked = [(number, (gone, n_docs)) for number, gone in enumerate(self._gone(available))]
        answers = self._runner.ask(least_likely_in_shard, self._shards, asked)
        rows = np.concatenate([rows for rows, _ in answers])
        likelihoods = np.concatenate([likelihoods for _, likelihoods in answers])
        order = np.lexsort((rows, likelihoods))[:n_docs]
        if len(order) > 0:
            self.take(rows[order])  # all at once: they are needed next
        return rows[order], likelihoods[order]

    def next_documents(
        self, topics: Sequence[Alternative], outside: Sequence[NDArray[np.bool_]]
    ) -> list[Candidate | None]:
        """Return the document that fits best, for each new topic.

        Shards are given a gain that is known to be reachable, that of the best of their last
        candidates, so that most of them fit hardly any document.
        """
        gone = [self._gone(mask) for mask in outside]
        small = [NewTopic.of(topic) for topic in topics]
        best: list[Candidate | None] = [None] * len(topics)

        def ask(numbers: Sequence[int], least: Sequence[float]) -> None:
            asked = [
                (n, [Question(small[q], gone[q][n], least[q]) for q in range(len(topics))])
                for n in numbers
            ]
            answers = self._runner.ask(next_in_shard, self._shards, asked)
            for number, answer in zip(numbers, answers, strict=True):
                named = []
                for question, found in enumerate(answer):
                    if found is None:
                        continue
                    candidate, sample = found
                    self._known[candidate.document] = sample
                    named.append(candidate.document)
                    if _is_better(candidate, best[question]):
                        best[question] = candidate
                if named:
                    self._latest[number] = named

        numbers = list(self._numbers())
        if not self._latest:
            ask(numbers[:1], [-np.inf] * len(topics))
            numbers = numbers[1:]
        ask(numbers, self._gains_to_be_had(topics, outside))
        return best

    def _gains_to_be_had(
        self, topics: Sequence[Alternative], outside: Sequence[NDArray[np.bool_]]
    ) -> list[float]:
        rows = np.array(sorted({row for named in self._latest.values() for row in named}))
        if len(rows) == 0:
            return [-np.inf] * len(topics)
        near = self.take(rows)
        batch = self._fitter.batch(near.block, near.fit)
        found = batch.next_documents(topics, [mask[rows] for mask in outside])
        return [-np.inf if candidate is None else candidate.gain for candidate in found]

    def gains_above(self, topic: Alternative, available: NDArray[np.bool_], least: float) -> Floats:
        small = NewTopic.of(topic)
        asked = [(n, Question(small, gone, least)) for n, gone in enumerate(self._gone(available))]
        gains = np.full(len(self), -np.inf)
        for rows, values in self._runner.ask(gains_in_shard, self._shards, asked):
            gains[rows] = values
        return gains

    def find_similar(
        self, theta: Floats, usable: NDArray[np.bool_], nearest: int, before: int
    ) -> list[list[Similar]]:
        """Return the usable documents that may be donors, for every shard and every row of `theta`,
        numbered as if `before` others preceded the batch."""
        asked = [(n, (gone, theta, nearest, before)) for n, gone in enumerate(self._gone(usable))]
        answers: list[list[Similar]] = self._runner.ask(similar_in_shard, self._shards, asked)
        return answers


def _is_better(candidate: Candidate, other: Candidate | None) -> bool:
    """Return whether a candidate has a larger gain, or the same gain and a lower row."""
    if other is None or candidate.gain != other.gain:
        return other is None or candidate.gain > other.gain
    return candidate.document < other.document
