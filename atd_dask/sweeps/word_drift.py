"""Drift: words that documents on a normal topic gradually adopt.

A candidate about such words is not an anomaly. Most of its documents share one topic of the null
model and replace other documents on that topic instead of adding to them, and its words became more
frequent over earlier sweeps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from atd_dask.config.run_config import RunConfig
from atd_dask.distribution.engine.runner import Runner
from atd_dask.distribution.search_space import fit_corpus
from atd_dask.kernels.alternative import Alternative
from atd_dask.kernels.blocks import Corpus, MemoryCorpus
from atd_dask.kernels.calibration import SomeRows
from atd_dask.kernels.fitters import Fitter
from atd_dask.kernels.model import Ints, Proportions, WordTable
from atd_dask.kernels.trends import weigh_growth, weigh_replacement
from atd_dask.storage.corpus import CorpusStore
from atd_dask.sweeps.retraining import batch_store

# How many sweeps or days to look back.
LOOKBACK = 28

SECONDS_OF_A_DAY = 24 * 3600

# A candidate with at most this many words is drift unless the evidence is certain that it is not:
# normal topics take up single words all the time. With more words, it is drift if that is likely.
FEW_WORDS = 6

# With more words, documents count for the trend if they have this many of the first few.
LEAST_TOGETHER = 2

# This many normal documents are enough to know how frequent topics are.
MOST_NORMAL = 20_000

# A word differs from a normal topic if it is this many times as probable.
LEAST_WORD_RATIO = 3.0

# Log odds of 3 to 1: documents that replace normal ones do not join a known cluster.
REPLACING = 1.1

# Log odds of 10 to 1, and of 1000 to 1.
LIKELY = 2.3
CERTAIN = 6.9


@dataclass(frozen=True)
class Trend:
    """How many documents had the words of a candidate: sweep by sweep, or day by day if documents
    have dates."""

    first: int  # the first sweep, or the first day since 1970
    counts: tuple[int, ...]
    documents: tuple[int, ...]  # all documents of each sweep or day
    by_day: bool
    growth: float  # log odds of growth against a burst


@dataclass(frozen=True)
class TopicShares:
    """The main topic of every document of a batch."""

    main: Ints  # documents; -1 if it has no normal topic
    n_docs: int

    @classmethod
    def of(cls, proportions: Proportions, n_topics: int) -> TopicShares:
        """Find the main topics. Topics from `n_topics` on are not normal."""
        main = np.full(len(proportions), -1, dtype=np.int64)
        for row in range(len(proportions)):
            start, stop = proportions.indptr[row], proportions.indptr[row + 1]
            if start < stop:
                topic = int(proportions.topics[start + np.argmax(proportions.theta[start:stop])])
                main[row] = topic if topic < n_topics else -1
        return cls(main, len(proportions))

    def find_common(self, rows: Sequence[int] | Ints) -> int | None:
        """Return the topic of most of some documents."""
        topics = Counter(self.main[np.array(rows, dtype=np.int64)].tolist())
        topic, n = min(topics.items(), key=lambda item: (-item[1], item[0]))
        return None if topic < 0 or 2 * n <= len(rows) else topic

    def count(self, topic: int) -> int:
        return int(np.count_nonzero(self.main == topic))

    def share(self, topic: int) -> float:
        return self.count(topic) / max(self.n_docs, 1)


def find_topics(runner: Runner, corpus: Corpus, fitter: Fitter) -> TopicShares:
    """Return the main topics of documents."""
    fit = fit_corpus(runner, corpus, fitter)[1]
    return TopicShares.of(fit.proportions, fitter.context.table.n_topics)


def take_some(normal: Corpus) -> Corpus:
    """Return normal documents, evenly spaced ones if there are many."""
    every = max(-(-normal.n_docs // MOST_NORMAL), 1)
    return MemoryCorpus.read(SomeRows(normal, np.arange(0, normal.n_docs, every)))


def weigh_arrival(
    rows: Sequence[int] | Ints, topic: int, batch: TopicShares, normal: TopicShares
) -> float:
    """Return the log odds that documents of a batch replace others on their topic."""
    n_group = int(np.count_nonzero(batch.main[np.array(rows, dtype=np.int64)] == topic))
    return weigh_replacement(n_group, batch.count(topic), normal.share(topic) * batch.n_docs)


def list_new_words(
    topic: Alternative, table: WordTable, normal: int, vocabulary: Sequence[str]
) -> list[str]:
    """Return the words that are several times as probable in the topic of a candidate as in a
    normal one, most telling first."""
    differs = find_new_words(topic, table, normal)
    raised = topic.raised_words(table.shared)
    return [vocabulary[word] for word in raised.tolist() if differs[word]]


def find_new_words(topic: Alternative, table: WordTable, normal: int | None) -> NDArray[np.bool_]:
    """Return which words are several times as probable in a topic as in a normal one, or as in all
    documents if that is None."""
    usual = table.shared.copy()
    if normal is not None:
        words = np.repeat(np.arange(table.n_words), np.diff(table.indptr))
        of_topic = table.topics == normal
        usual[words[of_topic]] = table.probabilities[of_topic]
    return topic.specific & (topic.probabilities >= LEAST_WORD_RATIO * usual)


def leave_normal(
    members: NDArray[np.int64], batch: TopicShares, normal: TopicShares
) -> NDArray[np.int64]:
    """Return the members of known clusters without those that came instead of normal documents.

    The topic of a cluster may have words of a normal topic too, and would take over its documents
    if the null model did not describe them well. `members` has the index of a cluster, or -1.
    """
    kept = members.copy()
    for cluster in np.unique(members[members >= 0]).tolist():
        rows = np.flatnonzero(members == cluster)
        topic = batch.find_common(rows)
        if topic is not None and weigh_arrival(rows, topic, batch, normal) > REPLACING:
            kept[rows[batch.main[rows] == topic]] = -1
    return kept


def is_drift(n_words: int, growth: float, arrival: float) -> bool:
    """Decide by the number of words that set a candidate apart from the topic of its documents, and
    by the log odds that these words grew, and that its documents came instead of others."""
    if n_words == 0:
        return True  # nothing that the topic does not have already
    return growth + arrival >= (-CERTAIN if n_words <= FEW_WORDS else LIKELY)


def measure_trend(
    config: RunConfig,
    number: int,
    words: Sequence[str],
    topic_share: float,
    normal: Sequence[CorpusStore],
    runner: Runner,
) -> Trend:
    """Measure the trend of a candidate's words up to a sweep.

    `topic_share` is the share of all documents that have the topic of its documents.
    """
    few = frozenset(words[:FEW_WORDS])
    # A group with many words has several of them in each document, a normal document perhaps one.
    least = 1 if len(words) <= FEW_WORDS else LEAST_TOGETHER
    first = max(1, number - LOOKBACK + 1)
    stores = [batch_store(config, sweep) for sweep in range(first, number + 1)]
    have = np.concatenate([_find_with(runner, store, few, least) for store in stores])
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
    n_usual = sum(int(_find_with(runner, store, few, least).sum()) for store in normal)
    usual = n_usual / max(n_normal, 1)
    found, exposed = counts.astype(np.float64), documents.astype(np.float64)
    growth = weigh_growth(found, topic_share * exposed, usual * exposed)
    return Trend(first, tuple(counts.tolist()), tuple(documents.tolist()), by_day, growth)


def _find_with(
    runner: Runner, store: CorpusStore, words: frozenset[str], least: int
) -> NDArray[np.bool_]:
    """Return which documents of a store have at least this many of the words."""
    terms = np.flatnonzero([word in words for word in store.vocabulary])
    beside = np.flatnonzero([word in words for word in store.unseen_words])
    if not len(terms) and not len(beside):
        return np.zeros(store.n_docs, dtype=np.bool_)
    given = (store, terms, beside, least)
    if store.n_blocks == 1:
        return find_in_block(given, 0)  # sooner done than sent
    blocks = runner.map(find_in_block, given, range(store.n_blocks))
    return np.concatenate([np.zeros(0, np.bool_), *blocks])


def find_in_block(given: tuple[CorpusStore, Ints, Ints, int], index: int) -> NDArray[np.bool_]:
    """Return which documents of a block have at least some number of the terms, in the vocabulary
    or outside it."""
    store, terms, beside, least = given
    start, stop = (int(row) for row in store.block_starts[index : index + 2])
    n_had = np.zeros(stop - start, dtype=np.int64)
    for block, wanted in (
        (store.rows(start, stop), terms),
        (store.unseen_rows(start, stop), beside),
    ):
        owners = np.repeat(np.arange(stop - start), np.diff(block.indptr))
        n_had += np.bincount(owners[np.isin(block.terms, wanted)], minlength=stop - start)
    return n_had >= least
