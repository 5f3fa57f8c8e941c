"""Batches of counts, and matrices that become rows."""

from __future__ import annotations

import numpy as np
import pytest
import sparse
from scipy.sparse import coo_array, csr_array

from atd_dask import documents
from atd_dask.documents import CountBatch, as_rows, name_numbers
from atd_dask.errors import InputError

DENSE = np.array([[2, 0, 1], [0, 0, 0], [0, 5, 3]])


def make_batch() -> CountBatch:
    rows = csr_array(DENSE)
    return CountBatch(
        ["a", "b", "c"],
        [(), ("x",), ()],
        rows.indptr.astype(np.int64),
        rows.indices.astype(np.int32),
        rows.data.astype(np.int32),
        [b"A", b"B", b"C"],
    )


def test_some_documents_are_taken() -> None:
    taken = make_batch().take_documents(np.array([True, False, True]))
    assert (taken.ids, taken.texts) == (["a", "c"], [b"A", b"C"])
    assert taken.indptr.tolist() == [0, 2, 4]
    assert taken.counts.tolist() == [2, 1, 5, 3]


def test_terms_are_renumbered_dropped_and_sorted() -> None:
    renamed = make_batch().rename(np.array([4, -1, 0], dtype=np.int32)).sort(5)
    assert renamed.indptr.tolist() == [0, 2, 2, 3]
    assert renamed.terms.tolist() == [0, 4, 0]
    assert renamed.counts.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "convert",
    [np.asarray, csr_array, coo_array, sparse.COO.from_numpy, sparse.GCXS.from_numpy],
)
def test_any_matrix_becomes_rows_of_its_own(convert) -> None:
    matrix = convert(DENSE)
    rows = as_rows(matrix)
    assert rows.toarray().tolist() == DENSE.tolist()
    rows.data[:] = 0
    assert as_rows(matrix).toarray().tolist() == DENSE.tolist()


def test_a_matrix_whose_parts_contradict_each_other_is_refused() -> None:
    broken = coo_array(DENSE)
    broken.coords[1][0] = 9
    with pytest.raises(ValueError, match="indices must be from 0 to 2"):
        as_rows(broken)
    broken = csr_array(DENSE)
    broken.indices[0] = 7
    with pytest.raises(ValueError, match="indices must be < 3"):
        as_rows(broken)


def test_a_few_bytes_cannot_claim_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MOST_EMPTY_ROWS", 4)
    with pytest.raises(ValueError, match="at most 4 rows without values, has 9 rows with 1 values"):
        as_rows(coo_array(([1], ([0], [0])), shape=(9, 1)))


def test_words_without_names_are_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert name_numbers(3, "a matrix") == ("0", "1", "2")
    monkeypatch.setattr(documents, "MOST_NUMBERED", 2)
    with pytest.raises(InputError, match="a matrix must have at most 2 words unless a vocabulary"):
        name_numbers(3, "a matrix")
