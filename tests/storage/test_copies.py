"""Near-duplicates in a corpus store, and the corpus without them."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from atd_dask.documents import Copies
from atd_dask.errors import InputError
from atd_dask.kernels.training import Convergence, OrderRange
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.inspection import describe
from atd_dask.storage.verification import verify
from tests.storage.corpora import ANNDATA, write_corpus

COPY_OF = np.full(20, -1)
COPY_OF[[5, 6, 7, 8, 9, 14]] = 1
COPY_OF[19] = 3
COPIES = Copies(COPY_OF, COPY_OF == 1)
KEPT = np.flatnonzero(COPY_OF < 0)


def write(path: Path) -> CorpusStore:
    return write_corpus(path, copies=COPIES, block_documents=5)


def test_copies_come_back(tmp_path: Path) -> None:
    store = write(tmp_path / "c")
    copies = store.copies()
    assert copies is not None
    np.testing.assert_array_equal(copies.copy_of, COPY_OF)
    np.testing.assert_array_equal(copies.in_training, COPIES.in_training)
    assert store.n_copies == 7
    assert store.representatives().tolist() == KEPT.tolist()
    assert verify(store.url) == []
    assert describe(store.url)["copies"] == 7
    # They are part of what a store is.
    assert store.digest != write_corpus(tmp_path / "d").digest


@ANNDATA
def test_anndata_reads_the_columns(tmp_path: Path) -> None:
    import anndata

    write(tmp_path / "c")
    other = anndata.read_zarr(tmp_path / "c")
    assert list(other.obs.columns) == ["labels", "length", "unseen", "copy_of", "in_training"]
    assert other.obs["copy_of"].tolist() == COPY_OF.tolist()
    assert other.obs["in_training"].tolist() == (COPY_OF == 1).astype(int).tolist()


def test_the_corpus_without_copies(tmp_path: Path) -> None:
    store = write(tmp_path / "c")
    corpus = store.without_copies()
    assert corpus.n_docs == len(KEPT)
    matrix = store.matrix()[KEPT]
    for read in (corpus, pickle.loads(pickle.dumps(corpus))):
        block = read.rows(0, read.n_docs)
        np.testing.assert_array_equal(block.indptr, matrix.indptr)
        np.testing.assert_array_equal(block.terms, matrix.indices)
        np.testing.assert_array_equal(block.counts, matrix.data)
        assert read.digest == corpus.digest != store.digest
    assert len(pickle.dumps(corpus)) < 500
    # A block of which nothing is left stays, and has no documents.
    assert corpus.block_starts.tolist() == [0, 5, 5, 9, 13]
    assert len(corpus.block(1)) == 0


def test_a_model_is_trained_on_blocks_of_which_nothing_is_left(tmp_path: Path) -> None:
    from atd_dask.distribution.training import Training, train_restarts

    corpus = write(tmp_path / "c").without_copies()
    training = Training(corpus, OrderRange(2, 2), Convergence(max_iterations=5), seed=1)
    (search,) = train_restarts(training, 1)
    assert np.isfinite(search.records[0].bic)


def test_without_copies_a_corpus_is_itself(tmp_path: Path) -> None:
    none = Copies(np.full(20, -1), np.zeros(20, np.bool_))
    store = write_corpus(tmp_path / "c", copies=none)
    assert store.n_copies == 0
    assert store.without_copies() is store


@pytest.mark.parametrize(
    ("copy_of", "told"),
    [
        ([-1] * 19, "copies of 20 documents must be told for each of them, got 19 and 19"),
        ([-1, 0, 1, *[-1] * 17], "must belong to an earlier document that is none, got row 1"),
        ([3, *[-1] * 19], "must belong to an earlier document that is none, got row 3 for row 0"),
        ([*[-1] * 19, 20], "got row 20 for row 19"),
    ],
)
def test_copies_of_nothing_are_refused(tmp_path: Path, copy_of: list[int], told: str) -> None:
    copies = Copies(np.array(copy_of), np.zeros(len(copy_of), np.bool_))
    with pytest.raises(InputError, match=told):
        write_corpus(tmp_path / "c", copies=copies)
    assert not (tmp_path / "c").exists()
