"""Measures detection in a large batch: time, memory, and whether the planted documents are found.

There are ten normal topics over 5,000 words. A document of the batch has about 100 words, most of
them from one of the topics. Half of the words of a planted document come from a new topic.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from atd_dask.bench.usage import Row, measure
from atd_dask.config.cluster_options import ClusterOptions, LocalOptions
from atd_dask.config.rules import make_rules
from atd_dask.config.run_config import DetectionConfig, SignificanceConfig
from atd_dask.distribution.detection import detect
from atd_dask.distribution.engine.clients import connect
from atd_dask.distribution.training import Training, choose_best, train_restarts
from atd_dask.documents import CountBatch
from atd_dask.kernels.streams import open_stream
from atd_dask.kernels.training import Convergence, OrderRange
from atd_dask.stages.watching import watch_detection
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.corpus_writer import CorpusWriter

if TYPE_CHECKING:
    from atd_dask.progress import Progress

N_WORDS = 5_000
N_TOPICS = 10
MEAN_LENGTH = 100
PLANTED_SHARE = 0.5
N_TRAIN = 5_000
N_VALIDATION = 1_000
N_PLANTED = 200
AT_ONCE = 10_000

REPLICATES = 100  # of B2: enough for the level 0.01


def bench_batch(n_docs: int, progress: Progress) -> list[Row]:
    """Find the first cluster of a generated batch, with two workers of one thread each."""
    rules = make_rules(
        DetectionConfig(
            # Searches in held-out documents would need twice as many normal documents.
            significance=SignificanceConfig(replicates=REPLICATES, searches=0),
            max_clusters=1,
        )
    )
    planted = choose_planted(n_docs)
    options = ClusterOptions(local=LocalOptions(workers=2, threads=1))
    with (
        tempfile.TemporaryDirectory(prefix="atd-dask-bench-") as folder,
        connect(options) as client,
        measure() as usage,
    ):
        with progress.task("write documents", N_TRAIN + N_VALIDATION + n_docs, "documents") as task:
            stores = {
                part: write_part(Path(folder, part), part, size, rows, task.advance)
                for part, size, rows in (
                    ("train", N_TRAIN, planted[:0]),
                    ("validation", N_VALIDATION, planted[:0]),
                    ("test", n_docs, planted),
                )
            }
        with measure() as training:
            orders = OrderRange(N_TOPICS, N_TOPICS)
            given = Training(stores["train"], orders, Convergence(), seed=1)
            table = choose_best(train_restarts(given, 1, client))
        with (
            watch_detection(progress, rules.replicates, rules.searches) as on_progress,
            measure() as detection,
        ):
            found = detect(table, stores["test"], stores, rules, 1, client, on_progress=on_progress)
    documents = set(found[0].documents) if found and found[0].significant else set()
    return [
        {
            "documents": n_docs,
            "entries": stores["test"].n_entries,
            "training_seconds": round(training.seconds, 1),
            "seconds": round(detection.seconds, 1),
            "cpu_seconds": round(detection.cpu_seconds, 1),
            "peak_gigabytes": round(usage.peak_bytes / 1e9, 2),
            "planted": len(planted),
            "found": len(documents & set(planted.tolist())),
            "others": len(documents - set(planted.tolist())),
        }
    ]


def choose_planted(n_docs: int) -> NDArray[np.int64]:
    """Choose the rows of the planted documents, spread over the batch."""
    n_planted = min(N_PLANTED, n_docs // 10)
    return np.arange(n_planted) * (n_docs // max(n_planted, 1))


def write_part(
    path: Path, part: str, n_docs: int, planted: NDArray[np.int64], advance: Any
) -> CorpusStore:
    """Write documents batch by batch, to save memory."""
    with CorpusWriter(path, [f"w{word:04d}" for word in range(N_WORDS)]) as writer:
        for batch in draw_documents(part, n_docs, planted):
            writer.append(batch)
            advance(len(batch))
    return CorpusStore.open(path)


def draw_documents(part: str, n_docs: int, planted: NDArray[np.int64]) -> Iterator[CountBatch]:
    stream = open_stream(1, f"bench/batch/{part}")
    running = np.cumsum(draw_topics(), axis=1)
    running /= running[:, -1:]
    for first in range(0, n_docs, AT_ONCE):
        size = min(AT_ONCE, n_docs - first)
        lengths = stream.poisson(MEAN_LENGTH, size)
        topics = np.repeat(stream.integers(N_TOPICS, size=size), lengths)
        documents = np.repeat(np.arange(size), lengths)
        unusual = np.isin(documents + first, planted)
        unusual &= stream.random(len(documents)) < PLANTED_SHARE
        topics[unusual] = N_TOPICS
        uniform = stream.random(len(documents))
        words = np.zeros(len(documents), np.int64)
        for topic in range(N_TOPICS + 1):
            mine = topics == topic
            words[mine] = np.searchsorted(running[topic], uniform[mine], side="right")
        entries, counts = np.unique(documents * N_WORDS + words, return_counts=True)
        ends = np.searchsorted(entries, np.arange(size + 1) * N_WORDS)
        yield CountBatch(
            ids=[str(first + row) for row in range(size)],
            labels=[()] * size,
            indptr=ends,
            terms=(entries % N_WORDS).astype(np.int32),
            counts=counts.astype(np.int32),
        )


def draw_topics() -> NDArray[np.float64]:
    """Draw topics × words; the last topic is that of the planted documents.

    All topics share the frequencies of words, but in each some words are far more frequent. In the
    last topic these are rare words, so that its documents are among the starts of clusters.
    """
    stream = open_stream(1, "bench/batch/topics")
    shared = 1.0 / (np.arange(N_WORDS, dtype=np.float64) + 200.0)
    shared /= shared.sum()
    usual, rare = np.arange(N_WORDS // 2), np.arange(N_WORDS // 2, N_WORDS)
    topics = [_draw_topic(stream, shared, usual, 100, 0.4) for _ in range(N_TOPICS)]
    return np.stack([*topics, _draw_topic(stream, shared, rare, 30, 0.8)])


def _draw_topic(
    stream: np.random.Generator,
    shared: NDArray[np.float64],
    among: NDArray[np.int64],
    n_salient: int,
    share: float,
) -> NDArray[np.float64]:
    """Draw a topic with a given share of salient words."""
    topic = (1 - share) * shared
    topic[stream.choice(among, n_salient, replace=False)] += share / n_salient
    return topic
