"""Estimates how much memory a worker needs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from atd_dask.config.run_config import RunConfig
from atd_dask.distribution.training import SMALL_ENTRIES
from atd_dask.distribution.vector_batches import NORMAL_ENTRIES, is_small
from atd_dask.storage.corpus import CorpusStore

# What a worker holds while it reads documents: a piece of a file, its words and their counts.
READING = (64 * 2**20, "the documents that a task reads")


def estimate_memory(
    config: RunConfig, stores: Mapping[str, CorpusStore], workers: int = 1
) -> tuple[int, str]:
    """Return how many bytes a worker must be able to hold, and what they are.

    Training holds a small corpus as a whole, and a large one block by block. Detection holds a
    small batch as a whole; of a large one, each worker holds its share.
    """
    train = stores["train"]
    n_docs, n_entries = train.n_docs, train.n_entries
    if n_entries > SMALL_ENTRIES:
        # A block ends with the document that fills it, so all blocks are about the same size.
        n_docs = int(np.diff(train.block_starts).max())
        n_entries = -(-n_entries // train.n_blocks)
    home = train if config.detection.pool == "train" else stores["validation"]
    trained = _count_bytes(n_docs, n_entries)
    test = stores["test"]
    share = 1 if is_small(test) else max(workers, 1)
    tested = _count_bytes(-(-test.n_docs // share), -(-test.n_entries // share))
    tested += _count_bytes(home.n_docs, home.n_entries)
    n_normal = sum(stores[part].n_entries for part in ("train", "validation"))
    tested += 8 * min(n_normal, NORMAL_ENTRIES)
    # A topic stores a probability for each of its words: four columns, including the topic.
    n_specific = min(config.null_model.topics.max * train.n_words, train.n_entries)
    model = 28 * n_specific + 16 * train.n_words
    return max(trained, tested) + model, "the model and the documents that a task works on"


def _count_bytes(n_docs: int, n_entries: int) -> int:
    return 8 * (n_docs + 1) + 8 * n_entries
