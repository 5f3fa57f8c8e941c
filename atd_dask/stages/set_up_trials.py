"""Trials of a set-up on a cluster: a search each, saved so that they can be resumed."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

import numpy as np

from atd_dask.distribution.cluster_search import grow_groups, list_candidates, rank
from atd_dask.distribution.engine.runner import Runner
from atd_dask.distribution.grids import Arrays
from atd_dask.distribution.search_space import fit_corpus
from atd_dask.distribution.vector_batches import open_vectors
from atd_dask.evaluation.metrics import Labels
from atd_dask.evaluation.problems import Pool
from atd_dask.evaluation.trials import Trial, lay_out
from atd_dask.kernels.blocks import MemoryCorpus
from atd_dask.kernels.calibration import JoinedCorpus, SomeRows
from atd_dask.kernels.detection_rules import DetectionRules
from atd_dask.kernels.fitters import Fitter
from atd_dask.kernels.model import Ints
from atd_dask.storage.corpus import CorpusStore

# At most this many normal documents are used, evenly spaced.
MOST_DOCUMENTS = 50_000


@functools.lru_cache(maxsize=1)
def read_normal(urls: tuple[str, ...]) -> Pool:
    """Return normal documents without near-duplicates, read once per process."""
    stores = [CorpusStore.open(url) for url in urls]
    chosen = choose_rows(sum(len(store.representatives()) for store in stores))
    joined = JoinedCorpus(tuple(store.without_copies() for store in stores))
    documents = SomeRows(joined, chosen).rows(0, len(chosen))
    labels = [
        labels
        for store in stores
        for labels in map(store.labels().__getitem__, store.representatives().tolist())
    ]
    return Pool(documents, [labels[row] for row in chosen.tolist()], joined.n_words)


def choose_rows(n_docs: int) -> Ints:
    return np.arange(0, n_docs, max(-(-n_docs // MOST_DOCUMENTS), 1))


def name_topics(pool: Pool, fitter: Fitter, runner: Runner) -> Labels:
    """Return the main topic of each document under a null model, as if it were a label."""
    _, fit = fit_corpus(runner, MemoryCorpus(pool.documents, pool.n_words), fitter)
    shares = fit.proportions
    labels: list[tuple[str, ...]] = []
    for row in range(len(shares)):
        mine = slice(shares.indptr[row], shares.indptr[row + 1])
        topics = shares.topics[mine][shares.theta[mine] > 0.5].tolist()
        labels.append(tuple(f"topic {topic + 1}" for topic in topics))
    return labels


@dataclass(frozen=True)
class TrialWork:
    """Computes a trial on a worker."""

    stores: tuple[str, ...]
    topics: Mapping[str, Ints]
    rules: DetectionRules
    n_batch: int
    seed: int

    def compute(self, trial: Trial, needed: object) -> Arrays:
        """Return the best groups of a search: their support, their size, and how many of their
        documents were planted."""
        pool = read_normal(self.stores)
        topic = self.topics.get(trial.topic, np.zeros(0, np.int64))
        laid = lay_out(pool.documents, pool.n_words, topic, trial, self.n_batch, self.seed)
        batch, normal = (MemoryCorpus(block, pool.n_words) for block in (laid.batch, laid.normal))
        everyone = np.ones(batch.n_docs, dtype=np.bool_)
        with open_vectors(Runner(), batch, normal, self.rules.unseen) as vectors:
            search = vectors.search(everyone, np.zeros(0, np.int64), self.rules.max_size)
            groups = grow_groups(search, search.choose_starts(self.rules.seeds))
            # Judged as in a detection, until it gives up.
            judged = islice(list_candidates(search, groups), self.rules.failures)
            kept = rank([candidate.group for candidate in judged])
        first = batch.n_docs - laid.n_planted
        return {
            "support": np.array([group.support for group in kept], dtype=np.float64),
            "size": np.array([len(group.documents) for group in kept], dtype=np.int64),
            "planted": np.array(
                [sum(row >= first for row in group.documents) for group in kept], dtype=np.int64
            ),
        }
