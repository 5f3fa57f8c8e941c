"""Measures training on generated documents and detection in a large batch: time, memory, and
whether the planted groups are found.

Normal topics share the frequencies of words, but in each some words are far more frequent. A
document has about 100 words, most of them from one topic. Half of the words of a planted document
come from the new topic of its group.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

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
    from atd_dask.kernels.detection_rules import FoundCluster
    from atd_dask.progress import Progress

MEAN_LENGTH = 100
PLANTED_SHARE = 0.5
AT_ONCE = 10_000
TRAINED_TO_VALIDATION = 5  # documents

REPLICATES = 100  # of B2: enough for the level 0.01

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Shape:
    """What generated documents are like."""

    n_words: int = 5_000
    n_topics: int = 10
    n_groups: int = 1  # planted in the batch, each with a topic of its own
    seed: int = 1


@dataclass(frozen=True)
class LargeBatch:
    """What is to be measured. Without held-out searches there are as many clusters as groups."""

    n_docs: int
    n_train: int = 200_000
    shape: Shape = Shape()
    group_size: int = 200
    n_orders: int = 1  # numbers of topics that are tried
    n_searches: int = 0


def bench_batch(given: LargeBatch, progress: Progress) -> list[Row]:
    """Train on generated documents, and find the groups of a generated batch, with two workers of
    one thread each."""
    shape = given.shape
    rules = make_rules(
        DetectionConfig(
            significance=SignificanceConfig(replicates=REPLICATES, searches=given.n_searches),
            max_clusters=None if given.n_searches else shape.n_groups,
        )
    )
    planted = choose_planted(given.n_docs, given.group_size * shape.n_groups)
    sizes = {
        "train": given.n_train,
        "validation": given.n_train // TRAINED_TO_VALIDATION,
        "test": given.n_docs,
    }
    options = ClusterOptions(local=LocalOptions(workers=2, threads=1))
    with (
        tempfile.TemporaryDirectory(prefix="atd-dask-bench-") as folder,
        connect(options) as client,
        measure() as usage,
    ):
        with progress.task("write documents", sum(sizes.values()), "documents") as task:
            stores = {
                part: write_part(
                    Path(folder, part),
                    part,
                    size,
                    planted if part == "test" else planted[:0],
                    task.advance,
                    shape,
                )
                for part, size in sizes.items()
            }
        with measure() as training, progress.task("train") as task:
            orders = OrderRange(shape.n_topics + given.n_orders // 2, _least_order(given))
            given_training = Training(stores["train"], orders, Convergence(), seed=1)
            table = choose_best(
                train_restarts(given_training, 1, client, on_progress=lambda *_: task.advance())
            )
        with (
            watch_detection(progress, rules.replicates, rules.searches) as on_progress,
            measure() as detection,
        ):
            found = detect(table, stores["test"], stores, rules, 1, client, on_progress=on_progress)
    return [
        {
            "train": given.n_train,
            "documents": given.n_docs,
            "entries": stores["test"].n_entries,
            "training_seconds": round(training.seconds, 1),
            "training_cpu_seconds": round(training.cpu_seconds, 1),
            "topics": table.n_topics,
            "seconds": round(detection.seconds, 1),
            "cpu_seconds": round(detection.cpu_seconds, 1),
            "peak_gigabytes": round(usage.peak_bytes / 1e9, 2),
            "planted": len(planted),
            **compare(found, planted, shape.n_groups),
        }
    ]


def _least_order(given: LargeBatch) -> int:
    return given.shape.n_topics + given.n_orders // 2 - given.n_orders + 1


def compare(found: Sequence[FoundCluster], planted: Rows, n_groups: int) -> Mapping[str, int]:
    """Count the planted documents in significant clusters, the others there, and the groups that
    most documents of such a cluster belong to."""
    groups = {row: index % n_groups for index, row in enumerate(planted.tolist())}
    documents: set[int] = set()
    found_groups = set()
    for cluster in found:
        if cluster.significant:
            documents.update(cluster.documents)
            owners = [groups[row] for row in cluster.documents if row in groups]
            for group in set(owners):
                if 2 * owners.count(group) > len(cluster.documents):
                    found_groups.add(group)
    return {
        "found": len(documents & groups.keys()),
        "others": len(documents - groups.keys()),
        "groups": n_groups,
        "groups_found": len(found_groups),
    }


def choose_planted(n_docs: int, n_planted: int) -> Rows:
    """Choose the rows of the planted documents, spread over the batch."""
    n_planted = min(n_planted, n_docs // 10)
    return np.arange(n_planted) * (n_docs // max(n_planted, 1))


def write_part(
    path: Path,
    part: str,
    n_docs: int,
    planted: Rows,
    advance: Callable[[int], None],
    shape: Shape,
) -> CorpusStore:
    """Write documents batch by batch, to save memory."""
    with CorpusWriter(path, [f"w{word:05d}" for word in range(shape.n_words)]) as writer:
        for batch in draw_documents(part, n_docs, planted, shape):
            writer.append(batch)
            advance(len(batch))
    return CorpusStore.open(path)


def draw_documents(part: str, n_docs: int, planted: Rows, shape: Shape) -> Iterator[CountBatch]:
    stream = open_stream(shape.seed, f"bench/batch/{part}")
    running = np.cumsum(draw_topics(shape), axis=1)
    running /= running[:, -1:]
    n_words = shape.n_words
    for first in range(0, n_docs, AT_ONCE):
        size = min(AT_ONCE, n_docs - first)
        lengths = stream.poisson(MEAN_LENGTH, size)
        topics = np.repeat(stream.integers(shape.n_topics, size=size), lengths)
        documents = np.repeat(np.arange(size), lengths)
        index = np.searchsorted(planted, documents + first)
        unusual = np.isin(documents + first, planted)
        unusual &= stream.random(len(documents)) < PLANTED_SHARE
        topics[unusual] = shape.n_topics + index[unusual] % shape.n_groups
        uniform = stream.random(len(documents))
        words = np.zeros(len(documents), np.int64)
        order = np.argsort(topics, kind="stable")
        bounds = np.searchsorted(topics[order], np.arange(len(running) + 1))
        for topic in range(len(running)):
            mine = order[bounds[topic] : bounds[topic + 1]]
            words[mine] = np.searchsorted(running[topic], uniform[mine], side="right")
        entries, counts = np.unique(documents * n_words + words, return_counts=True)
        ends = np.searchsorted(entries, np.arange(size + 1) * n_words)
        yield CountBatch(
            ids=[str(first + row) for row in range(size)],
            labels=[()] * size,
            indptr=ends,
            terms=(entries % n_words).astype(np.int32),
            counts=counts.astype(np.int32),
        )


def draw_topics(shape: Shape) -> NDArray[np.float64]:
    """Draw topics × words; the last topics are those of the planted groups.

    Salient words of planted topics are rare, so that their documents are among the starts of
    clusters.
    """
    stream = open_stream(shape.seed, "bench/batch/topics")
    n_words = shape.n_words
    shared = 1.0 / (np.arange(n_words, dtype=np.float64) + 200.0)
    shared /= shared.sum()
    usual, rare = np.arange(n_words // 2), np.arange(n_words // 2, n_words)
    topics = [_draw_topic(stream, shared, usual, 100, 0.4) for _ in range(shape.n_topics)]
    planted = [_draw_topic(stream, shared, rare, 30, 0.8) for _ in range(shape.n_groups)]
    return np.stack([*topics, *planted])


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
