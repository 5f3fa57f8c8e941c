"""What problems are drawn from: the corpora of the paper, or labelled documents of your own."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix, vstack

from atd_dask.config.paper_corpora import TOPICS, paper_config
from atd_dask.config.run_config import RunConfig
from atd_dask.documents import PARTS
from atd_dask.evaluation.problems import GENERATED, Plan, Pool, make_plan
from atd_dask.kernels.model import Block
from atd_dask.kernels.training import OrderRange
from atd_dask.storage.atomic_files import join
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.run_layout import RunLayout

if TYPE_CHECKING:
    from atd_dask.bench.usage import Ingest
    from atd_dask.distribution.engine.clients import Client
    from atd_dask.progress import Progress

ORDERS = {
    "reuters": OrderRange(TOPICS["reuters"].max, TOPICS["reuters"].min),
    "newsgroups": OrderRange(TOPICS["newsgroups"].max, TOPICS["newsgroups"].min),
    GENERATED: OrderRange(20, 5),
}
SHORT_ORDERS = {GENERATED: OrderRange(5, 3)}


@dataclass(frozen=True)
class Material:
    """The stores of each corpus, how many problems to draw, and how many topics to try."""

    stores: Mapping[str, tuple[str, ...]]
    plans: Mapping[str, Plan]
    orders: Mapping[str, OrderRange]


@functools.lru_cache(maxsize=2)
def read_pool(urls: tuple[str, ...]) -> Pool:
    """Read all documents and words of a corpus, once per process."""
    stores = [CorpusStore.open(url) for url in urls]
    words = sorted({word for store in stores for word in store.unseen_words})
    n_known = stores[0].n_words
    numbers = {word: n_known + number for number, word in enumerate(words)}
    counts = []
    for store in stores:
        known, unseen = store.matrix().tocoo(), store.unseen().tocoo()
        names = np.array([numbers[word] for word in store.unseen_words], dtype=np.int64)
        rows = np.concatenate((known.row, unseen.row))
        columns = np.concatenate((known.col, names[unseen.col]))
        values = np.concatenate((known.data, unseen.data))
        counts.append(csr_matrix((values, (rows, columns)), (store.n_docs, n_known + len(words))))
    whole = vstack(counts, format="csr")
    whole.sort_indices()
    block = Block(
        whole.indptr.astype(np.int64), whole.indices.astype(np.int32), whole.data.astype(np.int32)
    )
    return Pool(block, [label for store in stores for label in store.labels()], whole.shape[1])


def store_paper(
    plans: Mapping[str, Plan],
    corpora: str | None,
    output: str,
    client: Client,
    ingest: Ingest,
    progress: Progress,
) -> dict[str, tuple[str, ...]]:
    """Ingest the corpora of the paper; return their stores."""
    return {
        name: _store(
            paper_config(name, corpora, join(output, "corpora", name)), client, ingest, progress
        )
        for name, plan in plans.items()
        if plan.shape is None
    }


def take_own(
    config: RunConfig, output: str, client: Client, ingest: Ingest, progress: Progress
) -> Material:
    """Ingest the labelled documents of a configuration."""
    name, topics = config.name, config.null_model.topics
    config = replace(config, output=join(output, "corpora", name))
    stores = {name: _store(config, client, ingest, progress)}
    plan = make_plan(read_pool(stores[name]), name)
    return Material(stores, {name: plan}, {name: OrderRange(topics.max, topics.min)})


def _store(
    config: RunConfig, client: Client, ingest: Ingest, progress: Progress
) -> tuple[str, ...]:
    ingest(config, client, progress)
    return tuple(RunLayout(config.output).corpus(part) for part in PARTS)
