"""The synthetic corpus of the ATD paper, section 4.2, with its ground truth.

There are ten normal topics over 3000 words, with 30 salient words each, and two anomalous topics. A
document has Poisson(50) words, 0.85 of them from its dominant topic and the rest from the other
normal topics in equal parts. An anomalous document has two dominant topics in equal parts, its own
and a normal one. Train and validation have 300 documents of each normal topic; test has 200, and 30
of each anomalous topic.

Topics are drawn from Dirichlet distributions fitted to the authors' corpus. Two oddities of that
corpus are fixed: normal test documents have nothing of the anomalous topics, and every word of
validation and test, including the salient words of the anomalous topics, occurs in training.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from atd_dask.documents import CountBatch
from atd_dask.errors import InputError
from atd_dask.kernels.streams import open_stream
from atd_dask.text.readers.counted import CountedCorpus

PARTS = ("train", "validation", "test")
ANOMALOUS = ("10", "11")

# d = documents, k = topics, w = words
N_WORDS = 3000
N_NORMAL = 10
N_SALIENT = 30
MEAN_LENGTH = 50
DOMINANT = 0.85
DOCUMENTS_PER_TOPIC = {"train": 300, "validation": 300, "test": 200}
DOCUMENTS_PER_ANOMALY = 30
# The anomalous topics, each with the normal topic that shares its documents.
PARTNERS = {10: 0, 11: 8}

SALIENT_CONCENTRATION = 10.0
OTHER_CONCENTRATION = 0.045


def generate(seed: int, part: str) -> CountedCorpus:
    """Generate `train`, `validation` or `test`, in random order; the label of a document is the
    number of its topic."""
    if part not in PARTS:
        raise InputError(f"a synthetic part must be one of {', '.join(PARTS)}, got {part!r}")
    return CountedCorpus(tuple(map(_word, range(N_WORDS))), partial(_draw_part, seed, part))


def ground_truth(seed: int) -> dict[str, dict[str, float]]:
    """Map the label of each topic to its salient words and their probabilities."""
    topics, salient = _draw_topics(seed)
    return {
        str(topic): {_word(word): float(topics[topic, word]) for word in words}
        for topic, words in enumerate(salient)
    }


def _word(number: int) -> str:
    return f"w{number:04d}"


def _draw_part(seed: int, part: str) -> Iterator[CountBatch]:
    if part == "train":
        topics, _ = _draw_normal_topics(seed)
    else:
        topics, _ = _draw_topics(seed)
    yield _draw_documents(seed, part, topics)


def _draw_normal_topics(seed: int) -> tuple[NDArray[np.float64], list[list[int]]]:
    """Return the word probabilities (k, w) of the normal topics, and the salient words of each:
    those of topic 0 are among the first 300 words, those of topic 1 among the next, and so on."""
    stream = open_stream(seed, "synthetic/normal topics")
    block = N_WORDS // N_NORMAL
    choices = [np.arange(k * block, (k + 1) * block) for k in range(N_NORMAL)]
    return _draw_probabilities(stream, np.arange(N_WORDS), choices)


def _draw_topics(seed: int) -> tuple[NDArray[np.float64], list[list[int]]]:
    """Return the same as `_draw_normal_topics` for all topics, over the words that occur in
    training.

    The salient words of the anomalous topics are among the 300 of the last normal topic, those of
    one at even and those of the other at odd positions, so that they share none.
    """
    topics, salient = _draw_normal_topics(seed)
    train = _draw_documents(seed, "train", topics)
    words = np.unique(train.terms).astype(np.int64)
    choice = words[words >= N_WORDS - N_WORDS // N_NORMAL]
    stream = open_stream(seed, "synthetic/anomalous topics")
    unusual, unusual_salient = _draw_probabilities(
        stream, words, [choice[first :: len(PARTNERS)] for first in range(len(PARTNERS))]
    )
    normal = np.zeros_like(topics)
    normal[:, words] = topics[:, words]
    return np.concatenate((_normalise(normal), unusual)), salient + unusual_salient


def _draw_probabilities(
    stream: np.random.Generator, words: NDArray[np.int64], choices: list[NDArray[np.int64]]
) -> tuple[NDArray[np.float64], list[list[int]]]:
    """Draw topics over `words`, one for each set of words to choose salient words from."""
    concentrations = np.zeros((len(choices), N_WORDS))
    concentrations[:, words] = OTHER_CONCENTRATION * N_WORDS / len(words)
    salient = []
    for topic, choice in enumerate(choices):
        chosen = np.sort(stream.choice(choice, N_SALIENT, replace=False))
        concentrations[topic, chosen] = SALIENT_CONCENTRATION
        salient.append(chosen.tolist())
    return _normalise(stream.standard_gamma(concentrations)), salient


def _normalise(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    # Unlike np.sum, cumsum adds in a fixed order.
    return weights / np.cumsum(weights, axis=1)[:, -1:]


def _draw_documents(seed: int, part: str, topics: NDArray[np.float64]) -> CountBatch:
    stream = open_stream(seed, f"synthetic/{part}")
    labels = np.repeat(np.arange(N_NORMAL), DOCUMENTS_PER_TOPIC[part])
    if part == "test":
        labels = np.concatenate((labels, np.repeat(list(PARTNERS), DOCUMENTS_PER_ANOMALY)))
    labels = stream.permutation(labels)
    lengths = stream.poisson(MEAN_LENGTH, len(labels))
    token_labels = np.repeat(labels, lengths)
    uniform = stream.random(len(token_labels))
    words = np.zeros(len(token_labels), dtype=np.int64)
    for label in np.unique(labels):
        running = np.cumsum(_mixture(int(label), topics))
        mine = token_labels == label
        words[mine] = np.searchsorted(running, uniform[mine] * running[-1], side="right")
    documents = np.repeat(np.arange(len(labels)), lengths)
    entries, counts = np.unique(documents * N_WORDS + words, return_counts=True)
    sizes = np.bincount(entries // N_WORDS, minlength=len(labels))
    return CountBatch(
        ids=[f"{part}-{row:04d}" for row in range(len(labels))],
        labels=[(str(label),) for label in labels],
        indptr=np.concatenate(([0], np.cumsum(sizes))),
        terms=(entries % N_WORDS).astype(np.int32),
        counts=counts.astype(np.int32),
    )


def _mixture(label: int, topics: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the word probabilities (w) of documents with a label."""
    dominant = [label, PARTNERS[label]] if label in PARTNERS else [label]
    others = [topic for topic in range(N_NORMAL) if topic not in dominant]
    mixture = np.zeros(N_WORDS)
    for topic in dominant:
        mixture += DOMINANT / len(dominant) * topics[topic]
    for topic in others:
        mixture += (1 - DOMINANT) / len(others) * topics[topic]
    return mixture
