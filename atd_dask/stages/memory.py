"""How much memory a worker needs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from atd_dask.config.run_config import RunConfig
from atd_dask.distribution.training import SMALL_ENTRIES
from atd_dask.storage.corpus import CorpusStore


def estimate_memory(config: RunConfig, stores: Mapping[str, CorpusStore]) -> tuple[int, str]:
    """How many bytes a worker must be able to hold, and what they are.

    Training takes a small corpus as a whole and a large one by the block; detection takes the
    batch and the documents beside which it is judged as a whole.
    """
    train = stores["train"]
    n_docs, n_entries = train.n_docs, train.n_entries
    if n_entries > SMALL_ENTRIES:
        # A block is closed by the document that fills it, so all are about as large.
        n_docs = int(np.diff(train.block_starts).max())
        n_entries = -(-n_entries // train.n_blocks)
    home = train if config.detection.pool == "train" else stores["validation"]
    trained = _count_bytes(n_docs, n_entries)
    tested = sum(_count_bytes(part.n_docs, part.n_entries) for part in (stores["test"], home))
    # A topic has a probability of its own for each of its words: in four columns, with the topic.
    n_specific = min(config.null_model.topics.max * train.n_words, train.n_entries)
    model = 28 * n_specific + 16 * train.n_words
    return max(trained, tested) + model, "the model and the documents that a task works on"


def _count_bytes(n_docs: int, n_entries: int) -> int:
    return 8 * (n_docs + 1) + 8 * n_entries
