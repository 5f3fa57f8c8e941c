"""Generated documents for detection problems: topics over a Zipf-like vocabulary.

Half of a topic's tokens follow the frequencies of the whole language, half are its own words. An
ordinary document has one topic, and up to 40 % of another. A document of a planted group has the
new topic on a share of its tokens and is ordinary otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from atd_dask.evaluation.metrics import Labels
from atd_dask.kernels.model import Block, Floats, Ints
from atd_dask.kernels.streams import open_stream

VERSION = 1  # raise it if the generated documents change

OWN_SHARE = 0.5  # of a topic's tokens that are its own words
SECOND_AT_MOST = 0.4  # the largest share of the second topic of a document
SPREAD = 0.5  # standard deviation of the log of the lengths
SHORTEST = 10


@dataclass(frozen=True)
class Shape:
    """The parameters of generated documents."""

    n_train: int = 3000
    n_words: int = 4000
    topics: tuple[int, int] = (8, 15)  # range of the number of normal topics
    lengths: tuple[int, int] = (60, 100)  # range of the median length
    own_words: int = 150  # of every topic


@dataclass(frozen=True)
class Planted:
    """Generated documents with a new topic on a share of their tokens."""

    label: str
    size: int
    share: float


def generate_documents(
    seed: int, purpose: str, shape: Shape, n_normal: int, planted: Sequence[Planted]
) -> tuple[Block, Labels]:
    """Generate ordinary documents, followed by those of each group; labels name the topics."""
    stream = open_stream(seed, f"{purpose}/topics")
    n_topics = int(stream.integers(shape.topics[0], shape.topics[1], endpoint=True))
    median = int(stream.integers(shape.lengths[0], shape.lengths[1], endpoint=True))
    running = _draw_topics(stream, shape, n_topics + len(planted))
    popularity = np.cumsum(stream.integers(1, 5, n_topics))

    stream = open_stream(seed, f"{purpose}/documents")
    groups = np.repeat(np.arange(len(planted)), [group.size for group in planted])
    n_docs = n_normal + len(groups)
    first = np.searchsorted(popularity, stream.integers(popularity[-1], size=n_docs), side="right")
    second = stream.integers(n_topics, size=n_docs)
    second_share = SECOND_AT_MOST * stream.random(n_docs)
    new = np.zeros(n_docs, np.int64)
    new_share = np.zeros(n_docs)
    for number, group in enumerate(planted):
        mine = n_normal + np.flatnonzero(groups == number)
        new[mine], new_share[mine] = n_topics + number, group.share
    lengths = np.maximum(SHORTEST, np.rint(median * stream.lognormal(0, SPREAD, n_docs)))

    documents = np.repeat(np.arange(n_docs), lengths.astype(np.int64))
    aside = stream.random(len(documents)) < second_share[documents]
    unusual = stream.random(len(documents)) < new_share[documents]
    topics = np.where(aside, second[documents], first[documents])
    topics = np.where(unusual, new[documents], topics)
    words = _draw_words(stream.random(len(documents)), topics, running)
    labels = [(f"topic-{topic}",) for topic in first[:n_normal].tolist()]
    labels += [(planted[number].label,) for number in groups.tolist()]
    return count_tokens(documents, words, n_docs, shape.n_words), labels


def count_tokens(documents: Ints, words: Ints, n_docs: int, n_words: int) -> Block:
    """Count tokens, given the document and the word of each."""
    entries, counts = np.unique(documents * n_words + words, return_counts=True)
    sizes = np.bincount(entries // n_words, minlength=n_docs)
    return Block(
        np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes))),
        (entries % n_words).astype(np.int32),
        counts.astype(np.int32),
    )


def _draw_topics(stream: np.random.Generator, shape: Shape, n_topics: int) -> Floats:
    """Return the running sums of word probabilities, topics × words."""
    language = 1 / np.arange(10, 10 + shape.n_words)
    language = _normalise(stream.permutation(language))
    weights = _normalise(1 / np.arange(5, 5 + shape.own_words))
    topics = np.tile((1 - OWN_SHARE) * language, (n_topics, 1))
    for topic in topics:
        topic[stream.choice(shape.n_words, shape.own_words, replace=False)] += OWN_SHARE * weights
    return np.cumsum(topics, axis=1)


def _normalise(weights: Floats) -> Floats:
    # Unlike np.sum, cumsum adds in a fixed order.
    total = float(np.cumsum(weights)[-1])
    return weights / total


def _draw_words(uniform: Floats, topics: Ints, running: Floats) -> NDArray[np.int64]:
    """Draw a word for each token from its topic."""
    words = np.zeros(len(topics), np.int64)
    for topic in np.unique(topics).tolist():
        mine = topics == topic
        sums = running[topic]
        words[mine] = np.searchsorted(sums, uniform[mine] * sums[-1], side="right")
    return words
