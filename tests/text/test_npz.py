from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from atd_dask.documents import CountBatch
from atd_dask.errors import InputError
from atd_dask.stages.reading import counted_pieces
from atd_dask.text.options import Source
from atd_dask.text.readers import counts, npz

MATRIX = np.array([[0, 2, 0, 1], [0, 0, 0, 0], [5, 0, 0, 0]])


def read_batches(path: Path, **source: str) -> list[CountBatch]:
    return list(counts(Source("npz", str(path), **source)).batches())


@pytest.mark.parametrize(
    "matrix",
    [
        sparse.csr_array(MATRIX),
        sparse.csc_matrix(MATRIX.astype(float)),
        sparse.coo_array((np.array([1, 1, 1, 5, 0]), ([0, 0, 0, 2, 2], [1, 1, 3, 0, 1])), (3, 4)),
        sparse.csr_array(
            (np.array([1, 2, 5]), np.array([3, 1, 0]), np.array([0, 2, 2, 3])), (3, 4)
        ),
    ],
    ids=["csr", "csc of floats", "coo with repetitions and a zero", "unsorted"],
)
def test_rows_are_documents(tmp_path: Path, matrix: sparse.sparray) -> None:
    path, labels, words = tmp_path / "a.npz", tmp_path / "labels", tmp_path / "words"
    sparse.save_npz(path, matrix)
    labels.write_text("a b\n\nc\n")
    words.write_text("w\nx\ny\nz\n")
    source = Source("npz", str(path), labels=str(labels), vocabulary=str(words))
    assert counts(source).vocabulary == ("w", "x", "y", "z")
    (batch,) = counts(source).batches()
    assert (batch.ids, batch.labels) == (["0", "1", "2"], [("a", "b"), (), ("c",)])
    assert batch.indptr.tolist() == [0, 2, 2, 3]
    assert (batch.terms.tolist(), batch.counts.tolist()) == ([1, 3, 0], [2, 1, 5])
    assert (batch.indptr.dtype, batch.terms.dtype, batch.counts.dtype) == (
        np.int64,
        np.int32,
        np.int32,
    )


def test_batches_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sparse.save_npz(tmp_path / "a.npz", sparse.csr_array(MATRIX))
    monkeypatch.setattr(npz, "BATCH_DOCUMENTS", 2)
    first, second = read_batches(tmp_path / "a.npz")
    assert (first.ids, second.ids) == (["0", "1"], ["2"])
    assert (second.indptr.tolist(), second.terms.tolist()) == ([0, 1], [0])


@pytest.mark.parametrize("value", [-1.0, 0.5, np.nan, np.inf, 2.0**31])
def test_counts_must_be_whole_numbers(tmp_path: Path, value: float) -> None:
    matrix = sparse.csr_array(MATRIX.astype(float))
    matrix.data[2] = value
    sparse.save_npz(tmp_path / "a.npz", matrix)
    message = r"a\.npz, row 2 \(from 0\): a count must be a whole number .* in column 0"
    with pytest.raises(InputError, match=message):
        read_batches(tmp_path / "a.npz")


def test_columns_and_labels_must_fit(tmp_path: Path) -> None:
    path, beside = tmp_path / "a.npz", tmp_path / "beside"
    sparse.save_npz(path, sparse.csr_array(MATRIX))
    beside.write_text("one\ntwo\n")
    with pytest.raises(
        InputError, match=r"must have a column for each of the 2 words of .*, has 4"
    ):
        read_batches(path, vocabulary=str(beside))
    with pytest.raises(InputError, match=r"must have a line for each of the 3 documents .*, has 2"):
        read_batches(path, labels=str(beside))


def test_a_file_that_is_no_sparse_matrix_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    sparse.save_npz(path, sparse.csr_array(np.eye(300)))
    whole = path.read_bytes()
    flipped = whole[:100] + bytes([whole[100] ^ 255]) + whole[101:]
    for data in (b"", b"text", b"PK\x03\x04" * 10, whole[:200], flipped):
        path.write_bytes(data)
        with pytest.raises(InputError, match=r"a\.npz must be a sparse matrix of numbers"):
            read_batches(path)
    np.savez(path, a=MATRIX)
    with pytest.raises(InputError, match=r"a\.npz must be a sparse matrix of numbers"):
        read_batches(path)


@pytest.mark.parametrize("column", [-1, 4])
def test_columns_outside_the_matrix_are_refused(tmp_path: Path, column: int) -> None:
    matrix = sparse.csr_matrix(MATRIX)
    matrix.indices[0] = column
    sparse.save_npz(tmp_path / "a.npz", matrix)
    with pytest.raises(InputError, match="must be a sparse matrix of numbers as scipy saves it"):
        read_batches(tmp_path / "a.npz")


def test_complex_numbers_are_refused(tmp_path: Path) -> None:
    sparse.save_npz(tmp_path / "a.npz", sparse.csr_array(MATRIX * 1j))
    with pytest.raises(InputError, match="it has 2 axes and holds complex128"):
        read_batches(tmp_path / "a.npz")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.npz must exist"):
        read_batches(tmp_path / "absent.npz")


def test_an_encrypted_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    sparse.save_npz(path, sparse.csr_array(MATRIX))
    data = bytearray(path.read_bytes())
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = -1
        while (start := data.find(mark, start + 1)) >= 0:
            data[start + flags] |= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"a\.npz must be a sparse matrix .* is encrypted"):
        read_batches(path)


@pytest.mark.parametrize("encoding", ["idna", "rot13", "klingon"])
def test_an_encoding_is_looked_at_before_the_vocabulary(tmp_path: Path, encoding: str) -> None:
    path, words = tmp_path / "a.npz", tmp_path / "words"
    sparse.save_npz(path, sparse.csr_array(MATRIX))
    words.write_bytes(b"caf\xe9\n")
    with pytest.raises(InputError, match=f"encoding must be one that .*, got '{encoding}' for"):
        read_batches(path, vocabulary=str(words), encoding=encoding)


@pytest.mark.parametrize("kind", ["rows", "unpacked"])
def test_a_few_bytes_do_not_become_gigabytes(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.npz"
    if kind == "rows":
        one = np.array([1])
        sparse.save_npz(path, sparse.coo_array((one, (one, one)), (10**9, 4)))
    else:
        monkeypatch.setattr(npz, "MOST_UNPACKED", 10**6)
        sparse.save_npz(path, sparse.csr_array((10**6, 4), dtype=np.int64))
    with pytest.raises(InputError, match=r"a\.npz must be a sparse matrix .*: it must .* at most"):
        read_batches(path)


def test_columns_are_named_up_to_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    one = np.array([1])
    sparse.save_npz(path, sparse.csr_array((one, (one - 1, one * (10**9 - 1))), (1, 10**9)))
    with pytest.raises(InputError, match=r"a\.npz must have at most 2097152 words unless a"):
        list(counted_pieces(counts(Source("npz", str(path)))))
