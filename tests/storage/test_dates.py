"""Dates in a corpus store: there only if documents have them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from atd_dask.documents import NO_DATE, CountBatch
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.corpus_writer import CorpusWriter


def make_batch(ids: list[str]) -> CountBatch:
    n = len(ids)
    ones = np.ones(n, np.int32)
    return CountBatch(ids, [()] * n, np.arange(n + 1), ones - 1, ones)


def test_dates_are_kept_beside_documents_without_one(tmp_path):
    with CorpusWriter(tmp_path / "a.zarr", ["word"], dated=True) as writer:
        writer.append(replace(make_batch(["a", "b"]), dates=np.array([5, NO_DATE])))
        writer.append(make_batch(["c"]))
    store = CorpusStore.open(tmp_path / "a.zarr")
    assert store.n_dated == 1
    np.testing.assert_array_equal(store.dates(), [5, NO_DATE, NO_DATE])
    np.testing.assert_array_equal(store.dates(0, 1), [5])
    (batch,) = store.batches()
    np.testing.assert_array_equal(batch.dates, [5, NO_DATE, NO_DATE])


def test_a_store_without_dates_is_as_it_was(tmp_path):
    for name in ("a.zarr", "b.zarr"):
        with CorpusWriter(tmp_path / name, ["word"]) as writer:
            writer.append(make_batch(["a"]))
    stores = [CorpusStore.open(tmp_path / name) for name in ("a.zarr", "b.zarr")]
    assert stores[0].digest == stores[1].digest
    assert stores[0].n_dated is None
    assert stores[0].dates() is None
    assert not (tmp_path / "a.zarr" / "obs" / "date").exists()
    (batch,) = stores[0].batches()
    assert batch.dates is None
