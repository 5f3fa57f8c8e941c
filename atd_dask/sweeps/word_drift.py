"""Drift: words that documents of a normal topic take up bit by bit.

A candidate about such words is not an anomaly. It is recognised by its documents, most of which
share one topic of the null model, and by how many documents had its words in earlier sweeps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from atd_dask.config.run_config import RunConfig
from atd_dask.distribution.engine.runner import Runner
from atd_dask.kernels.alternative import Alternative
from atd_dask.kernels.model import Ints, Proportions, WordTable
from atd_dask.kernels.trends import weigh_growth
from atd_dask.storage.corpus import CorpusStore
from atd_dask.sweeps.retraining import batch_store

# How many sweeps or days to look back.
LOOKBACK = 28

SECONDS_OF_A_DAY = 24 * 3600

# A candidate with at most this many words is drift unless its words came all at once: normal topics
# take up single words all the time. With more words, it is drift only if they have grown.
FEW_WORDS = 6

# A word differs from a normal topic if it is this many times as probable.
LEAST_RATIO = 3.0

# Log odds of 1000 to 1, for or against.
CERTAIN = 6.9


@dataclass(frozen=True)
class Trend:
    """How many documents had the words of a candidate: sweep by sweep, or day by day if documents
    have dates."""

    first: int  # the first sweep, or the first day since 1970
    counts: tuple[int, ...]
    documents: tuple[int, ...]  # all documents of each sweep or day
    by_day: bool
    evidence: float  # log odds of growth against a burst


@dataclass(frozen=True)
class TopicShares:
    """The main topic of every document of a batch."""

    main: Ints  # documents; -1 if it has no normal topic
    n_docs: int

    @classmethod
    def of(cls, proportions: Proportions, n_topics: int) -> TopicShares:
        """Find the main topics. The first `n_topics` are normal; the others are known clusters."""
        main = np.full(len(proportions), -1, dtype=np.int64)
        for row in range(len(proportions)):
            start, stop = proportions.indptr[row], proportions.indptr[row + 1]
            if start < stop:
                topic = int(proportions.topics[start + np.argmax(proportions.theta[start:stop])])
                main[row] = topic if topic < n_topics else -1
        return cls(main, len(proportions))

    def find_common(self, rows: Sequence[int]) -> tuple[int, float] | None:
        """Return the most common topic of some documents, and its share of all documents."""
        topics = Counter(self.main[np.array(rows, dtype=np.int64)].tolist())
        topic, n = min(topics.items(), key=lambda item: (-item[1], item[0]))
        if topic < 0 or 2 * n <= len(rows):
            return None
        return topic, float(np.count_nonzero(self.main == topic)) / self.n_docs


def list_new_words(
    topic: Alternative, table: WordTable, normal: int, vocabulary: Sequence[str]
) -> list[str]:
    """Return the words that are several times as probable in the topic of a candidate as in a
    normal one, most telling first."""
    usual = table.shared.copy()
    words = np.repeat(np.arange(table.n_words), np.diff(table.indptr))
    of_topic = table.topics == normal
    usual[words[of_topic]] = table.probabilities[of_topic]
    raised = topic.raised_words(table.shared)
    return [
        vocabulary[word]
        for word in raised.tolist()
        if topic.probabilities[word] >= LEAST_RATIO * usual[word]
    ]


def find_drift(
    config: RunConfig,
    number: int,
    words: Sequence[str],
    topic_share: float,
    normal: Sequence[CorpusStore],
    runner: Runner,
) -> Trend | None:
    """Return the trend of a candidate's words up to a sweep if it is drift, otherwise None.

    `topic_share` is the share of all documents that have the topic of its documents.
    """
    few = frozenset(words[:FEW_WORDS])
    first = max(1, number - LOOKBACK + 1)
    stores = [batch_store(config, sweep) for sweep in range(first, number + 1)]
    have = np.concatenate([_find_with(runner, store, few) for store in stores])
    by_day = all(store.n_dated == store.n_docs for store in stores)
    if by_day:
        dates = np.concatenate([store.dates() for store in stores])
        times = dates // SECONDS_OF_A_DAY
        first = max(int(times.min()), int(times.max()) - LOOKBACK + 1)
    else:
        times = np.repeat(np.arange(first, number + 1), [store.n_docs for store in stores])
    recent = times >= first
    documents = np.bincount(times[recent] - first)
    counts = np.bincount(times[recent & have] - first, minlength=len(documents))
    n_normal = sum(store.n_docs for store in normal)
    usual = sum(int(_find_with(runner, store, few).sum()) for store in normal) / max(n_normal, 1)
    found, exposed = counts.astype(np.float64), documents.astype(np.float64)
    evidence = weigh_growth(found, topic_share * exposed, usual * exposed)
    if evidence < (-CERTAIN if len(words) <= FEW_WORDS else CERTAIN):
        return None
    return Trend(first, tuple(counts.tolist()), tuple(documents.tolist()), by_day, evidence)


def _find_with(runner: Runner, store: CorpusStore, words: frozenset[str]) -> NDArray[np.bool_]:
    """Return which documents of a store have any of the words."""
    terms = np.flatnonzero([word in words for word in store.vocabulary])
    beside = np.flatnonzero([word in words for word in store.unseen_words])
    if not len(terms) and not len(beside):
        return np.zeros(store.n_docs, dtype=np.bool_)
    blocks = runner.map(find_in_block, (store, terms, beside), range(store.n_blocks))
    return np.concatenate([np.zeros(0, np.bool_), *blocks])


def find_in_block(given: tuple[CorpusStore, Ints, Ints], index: int) -> NDArray[np.bool_]:
    """Return which documents of a block have any of the terms, in the vocabulary or outside it."""
    store, terms, beside = given
    start, stop = (int(row) for row in store.block_starts[index : index + 2])
    have = np.zeros(stop - start, dtype=np.bool_)
    for block, wanted in (
        (store.rows(start, stop), terms),
        (store.unseen_rows(start, stop), beside),
    ):
        owners = np.repeat(np.arange(stop - start), np.diff(block.indptr))
        have[owners[np.isin(block.terms, wanted)]] = True
    return have
