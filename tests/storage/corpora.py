"""Small corpora for the tests of the stores."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from atd_dask.documents import CountBatch
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.corpus_writer import CorpusWriter

# What anndata itself asks of a later pandas is not the store's.
ANNDATA = pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")

WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]
UNSEEN = ["iota", "kappa"]


def random_counts(seed: int, n_docs: int, n_words: int, start: int = 0) -> CountBatch:
    """Documents with up to `n_words` words each, some with none."""
    rng = np.random.default_rng(seed)
    dense = rng.poisson(0.7, (n_docs, n_words))
    rows, terms = np.nonzero(dense)
    labels: list[tuple[str, ...]] = [(), ("earn",), ("earn", "ship")]
    return CountBatch(
        [f"document {start + row}" for row in range(n_docs)],
        [labels[row % 3] for row in range(n_docs)],
        np.searchsorted(rows, np.arange(n_docs + 1)).astype(np.int64),
        terms.astype(np.int32),
        dense[rows, terms].astype(np.int32),
    )


def write_corpus(
    url: str | os.PathLike[str], seed: int = 1, n_docs: int = 20, **options: Any
) -> CorpusStore:
    with CorpusWriter(url, WORDS, UNSEEN, {"name": "test", "seed": seed}, **options) as writer:
        writer.append(random_counts(seed, n_docs, 8), random_counts(seed + 1, n_docs, 2))
    return CorpusStore.open(url)
