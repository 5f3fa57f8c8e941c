"""The clusters that sweeps have reported: their topics count as known, and they grow.

Their documents are kept with all their words, so that the topics can be learned again under any
null model. They are learned one after another, each in addition to those before it, as within a
run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from atd_dask.config.run_config import RunConfig
from atd_dask.distribution.engine.runner import Runner
from atd_dask.distribution.search_space import fit_corpus
from atd_dask.kernels.alternative import Alternative
from atd_dask.kernels.cluster_growth import SettleRule
from atd_dask.kernels.detection_rules import DetectionRules
from atd_dask.kernels.model import Block, Floats, WordTable
from atd_dask.kernels.next_document import Batch
from atd_dask.kernels.word_switches import add_topic
from atd_dask.stages.storing import store_part
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.run_layout import RunLayout
from atd_dask.sweeps.assembly import Assembly, gather, read_pieces
from atd_dask.sweeps.state import KnownCluster
from atd_dask.sweeps.word_drift import TopicShares, find_new_words
from atd_dask.text.counting import WordCounts
from atd_dask.text.lexicon import Encoding

if TYPE_CHECKING:
    from atd_dask.progress import Progress

# A topic is learned from at most this many documents of its cluster, the latest.
MOST_DOCUMENTS = 500

# Rounds of finding the members of a known cluster.
MOST_ROUNDS = 10

# A cluster without new documents in this many sweeps is no longer looked for. Normal topics change,
# and after some time one of them may resemble what a cluster was about more than the null model.
DORMANT = 28

# How many of its new words a document must have to join a cluster.
LEAST_WORDS = 2

# How much of a document must be about the topic of a cluster, compared with its documents. Another
# new topic may have some of the same words.
LEAST_SHARE = 0.5

# Two topics are the same if they share half of this many words, or half of those that they have,
# but not if they share only a few by chance.
COMPARED_WORDS = 20
LEAST_SHARED = 5


@dataclass(frozen=True)
class Recognised:
    """A null model that knows the clusters, and what it recognised in a batch."""

    table: WordTable
    members: NDArray[np.int64]  # for each document the index of its cluster, or -1


def known_path(config: RunConfig, sweep: int) -> str:
    return RunLayout(config.output).sweep(sweep).corpus("known")


def recognise(
    table: WordTable,
    vocabulary: Sequence[str],
    clusters: Sequence[KnownCluster],
    known: CorpusStore | None,
    test: CorpusStore,
    rules: DetectionRules,
    runner: Runner,
    sweep: int,
) -> Recognised:
    """Learn the topics of the clusters that are not dormant, and find the documents of the batch
    that belong to one of them by the odds that a member must have."""
    members = np.full(test.n_docs, -1)
    base, n_normal = rules.fitter(table), table.n_topics
    blocks = _read_blocks(known, clusters, vocabulary) if known is not None else []
    for index, block in enumerate(blocks):
        if not len(block.terms):
            continue  # another cluster took its documents, or none of their words is known
        if max(clusters[index].sweeps, default=0) < sweep - DORMANT:
            continue
        fitter = rules.fitter(table)
        topic = fitter.train(block)
        documents, fit = fit_corpus(runner, test, fitter)
        asking = topic.smoothed(fitter.context)
        found = find_members(fitter.batch(documents, fit), asking, members < 0, rules.settling)
        shares = TopicShares.of(base.fit(block).proportions, n_normal)
        new = find_new_words(topic, table, shares.find_common(range(len(block))))
        found = found[has_words(documents.take(found), new)]
        if len(found):
            usual = float(np.median(fitter.shares(asking, block)))
            shares_found = fitter.shares(asking, documents.take(found))
            members[found[shares_found >= LEAST_SHARE * usual]] = index
        table = add_topic(table, topic.specific, topic.probabilities)
    return Recognised(table, members)


def has_words(documents: Block, words: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which documents have at least two of some words, or the only one.

    The topic of a cluster has words of the normal topic of its documents, too. Without this, it
    would take over that topic where the null model describes it badly.
    """
    owners = np.repeat(np.arange(len(documents)), np.diff(documents.indptr))
    n_own = np.bincount(owners[words[documents.terms]], minlength=len(documents))
    return n_own >= max(min(LEAST_WORDS, int(np.count_nonzero(words))), 1)


def find_members(
    batch: Batch, topic: Alternative, available: NDArray[np.bool_], rule: SettleRule
) -> NDArray[np.int64]:
    """Return the documents that belong to a topic; the more there are, the less each must gain."""
    found = np.zeros(0, dtype=np.int64)
    n_docs = int(np.count_nonzero(available))
    for _ in range(MOST_ROUNDS):
        least = rule.least_gain(max(len(found), 1), n_docs)
        gains = batch.gains_above(topic, available, least)
        more = np.flatnonzero(gains > least)
        if len(more) <= len(found):
            break
        found = more
    return found


def _read_blocks(
    known: CorpusStore, clusters: Sequence[KnownCluster], vocabulary: Sequence[str]
) -> list[Block]:
    """Return the documents of each cluster, over the current vocabulary."""
    everything = np.ones(known.n_docs, dtype=np.bool_)
    numbers: list[str] = []
    parts = []
    with closing(gather(read_pieces(known, everything))) as documents:
        encoding = Encoding.choose(documents, vocabulary)
        for batch in documents.batches():
            counts, _ = encoding.encode(batch)
            parts.append(Block(counts.indptr, counts.terms, counts.counts))
            numbers += [label for (label,) in batch.labels]
    whole = Block.concatenate(parts)
    owners = np.array(numbers)
    return [whole.take(np.flatnonzero(owners == str(cluster.number))) for cluster in clusters]


def list_words(topic: Alternative, shared: Floats, vocabulary: Sequence[str]) -> tuple[str, ...]:
    """Return the words that a topic makes more likely, most telling first."""
    words = topic.raised_words(shared)[:COMPARED_WORDS]
    return tuple(vocabulary[word] for word in words.tolist())


def find_same(words: Sequence[str], clusters: Mapping[int, KnownCluster]) -> int | None:
    """Return the index of the cluster that is about the same words, if there is one."""
    for index, cluster in clusters.items():
        fewer = min(len(words), len(cluster.words))
        more = max(len(words), len(cluster.words))
        n_shared = len(set(words) & set(cluster.words))
        if n_shared and 2 * n_shared >= fewer and n_shared >= min(LEAST_SHARED, more):
            return index
    return None


def store_known(
    config: RunConfig,
    known: CorpusStore | None,
    joining: Assembly,
    numbers: Sequence[int],
    vocabulary: Sequence[str],
    progress: Progress,
) -> None:
    """Store the documents of all clusters as the part `known` of a sweep: earlier ones and those
    that join. The label of a document is the number of its cluster."""
    labels = [(str(number),) for number in numbers]

    def pieces() -> Iterator[WordCounts]:
        # Latest first: of documents with the same id, the first is taken.
        first = 0
        for piece in joining.pieces():
            mine = labels[first : first + len(piece.batch)]
            first += len(piece.batch)
            yield replace(piece, batch=replace(piece.batch, labels=mine))
        if known is not None:
            yield from read_pieces(known, _choose_kept(known, [label for (label,) in labels]))

    with closing(gather(pieces())) as documents:
        store_part(config, "known", documents, vocabulary, progress)


def _choose_kept(known: CorpusStore, joining: Sequence[str]) -> NDArray[np.bool_]:
    """Return which of the earlier documents stay; the first ones are the latest."""
    numbers = [number for (number,) in known.labels()]
    room = {number: MOST_DOCUMENTS - joining.count(number) for number in set(numbers)}
    keep = np.zeros(len(numbers), dtype=np.bool_)
    for row, number in enumerate(numbers):
        keep[row] = room[number] > 0
        room[number] -= 1
    return keep
