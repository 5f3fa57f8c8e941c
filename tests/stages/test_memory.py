from __future__ import annotations

from types import SimpleNamespace

from atd_dask.config.run_config import RunConfig
from atd_dask.distribution.training import SMALL_ENTRIES
from atd_dask.stages.memory import estimate_memory


def make_stores(train, test):
    """Stores of documents with 100 entries each."""

    def make(n_docs):
        return SimpleNamespace(n_docs=n_docs, n_entries=100 * n_docs, n_words=1_000)

    return {"train": make(train), "validation": make(100), "test": make(test)}


def estimate(train, test, workers):
    needed, _ = estimate_memory(RunConfig(name="job"), make_stores(train, test), workers)
    return needed


def test_a_small_corpus_is_whole_on_every_worker():
    few = SMALL_ENTRIES // 100
    assert estimate(few, 100, 1) == estimate(few, 100, 50)
    assert estimate(few, 100, 1) > 8 * 100 * few


def test_each_worker_keeps_its_share_of_a_large_training():
    n_docs = 10**6
    one, ten = (estimate(n_docs, 100, workers) for workers in (1, 10))
    assert 8 * 100 * n_docs < one < 2 * 8 * 100 * n_docs
    held = 8 * 100 * n_docs * 9 // 10
    assert held < one - ten < 2 * held


def test_each_worker_keeps_its_share_of_a_large_batch():
    n_docs = 10**6
    one, ten = (estimate(1_000, n_docs, workers) for workers in (1, 10))
    # The documents and their vectors by word, at least.
    assert one > 20 * 100 * n_docs
    assert ten < one / 8


def test_a_large_batch_brings_as_many_normal_documents():
    n_docs = 10**5
    more = estimate(n_docs, n_docs, 1) - estimate(n_docs, n_docs // 2, 1)
    assert more > (36 + 20) * 100 * n_docs // 2
