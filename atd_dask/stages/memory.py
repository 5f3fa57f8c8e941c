"""Estimates how much memory a worker needs."""

from __future__ import annotations

from collections.abc import Mapping

from atd_dask.config.run_config import RunConfig
from atd_dask.distribution.training import SMALL_ENTRIES
from atd_dask.distribution.vector_batches import is_small, limit_normal
from atd_dask.storage.corpus import CorpusStore

# What a worker holds while it reads documents: a piece of a file, its words and their counts.
READING = (64 * 2**20, "the documents that a task reads")


# What a worker holds of each entry of a batch, and of each document: the documents twice, their
# vectors by word, and the mixtures of their fits.
BYTES_OF_BATCH_ENTRY = 8 + 8 + 12 + 8
BYTES_OF_BATCH_DOCUMENT = 100

# What it holds of each entry of the normal documents that a batch is compared with: the documents,
# and their vectors by word.
BYTES_OF_NORMAL_ENTRY = 8 + 12

# The proportions of a document, before a pass and after it.
BYTES_OF_PROPORTIONS = 2 * (8 + 2 * 12)


def estimate_memory(
    config: RunConfig, stores: Mapping[str, CorpusStore], workers: int = 1
) -> tuple[int, str]:
    """Return how many bytes a worker must be able to hold, and what they are.

    A task holds a small corpus or batch as a whole. Of a large one, each worker keeps its share for
    as long as the stage takes.
    """
    train, test = stores["train"], stores["test"]
    workers = max(workers, 1)
    trained = _count_bytes(train.n_docs, train.n_entries)
    if train.n_entries > SMALL_ENTRIES:
        trained = -(-(trained + BYTES_OF_PROPORTIONS * train.n_docs) // workers)
    tested = BYTES_OF_BATCH_ENTRY * test.n_entries + BYTES_OF_BATCH_DOCUMENT * test.n_docs
    if not is_small(test):
        tested = -(-tested // workers)
    home = train if config.detection.pool == "train" else stores["validation"]
    tested += _count_bytes(home.n_docs, home.n_entries)
    n_normal = sum(stores[part].n_entries for part in ("train", "validation"))
    tested += BYTES_OF_NORMAL_ENTRY * min(n_normal, limit_normal(test.n_entries))
    # A topic stores a probability for each of its words: four columns, including the topic.
    n_specific = min(config.null_model.topics.max * train.n_words, train.n_entries)
    model = 28 * n_specific + 16 * train.n_words
    return max(trained, tested) + model, "the model and the documents that a worker holds"


def _count_bytes(n_docs: int, n_entries: int) -> int:
    return 8 * (n_docs + 1) + 8 * n_entries
