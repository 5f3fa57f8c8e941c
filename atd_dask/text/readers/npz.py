"""A sparse matrix as SciPy saves it: a row for each document, a column for each word."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from functools import partial
from typing import IO, Any

import fsspec
import numpy as np

from atd_dask.documents import CountBatch, as_rows
from atd_dask.errors import InputError
from atd_dask.text.options import Source
from atd_dask.text.readers.counted import (
    BATCH_DOCUMENTS,
    CountedCorpus,
    Rows,
    make_batches,
    read_vocabulary,
)
from atd_dask.text.readers.files import readable

MOST_UNPACKED = 2**30  # bytes that may have any compression ratio
MOST_TIMES = 100  # the largest compression ratio of anything larger

_LARGEST = 2**31 - 1  # of a term or a count in a CountBatch


def open_corpus(source: Source, path: str) -> CountedCorpus:
    """Open the documents of a matrix, which is held in memory while they are read."""
    vocabulary = read_vocabulary(source)
    n_words = len(vocabulary) if vocabulary is not None else None
    return CountedCorpus(vocabulary, partial(_read_batches, source, path, n_words), path)


def _read_batches(source: Source, path: str, n_words: int | None) -> Iterator[CountBatch]:
    matrix = _load(path)
    n_columns = matrix.shape[1]
    if n_words is not None and n_columns != n_words:
        raise InputError(
            f"{path} must have a column for each of the {n_words} words of {source.vocabulary},"
            f" has {n_columns}"
        )
    if n_columns > _LARGEST:
        raise InputError(f"{path} must have at most {_LARGEST} columns, has {n_columns}")
    _check_counts(matrix, path)
    yield from make_batches(_slice_rows(matrix), source, path)


def _load(path: str) -> Any:
    """Return the matrix as CSR with ascending columns, repeated entries added up and zeros left
    out."""
    from scipy import sparse

    with readable(path), fsspec.open(path, "rb") as file:
        try:
            _check_size(file)
            matrix = sparse.load_npz(file)
            if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
                raise ValueError(f"it has {matrix.ndim} axes and holds {matrix.dtype}")
            matrix = as_rows(matrix)
        except (
            EOFError,
            KeyError,
            MemoryError,
            NotImplementedError,
            RuntimeError,  # it is encrypted
            TypeError,
            ValueError,
            zipfile.BadZipFile,
            zlib.error,
        ) as error:
            # NumPy takes anything it does not know for a pickle, and says how to load it.
            reason = "it is none" if "pickle" in str(error) else str(error) or "it is too large"
            raise InputError(
                f"{path} must be a sparse matrix of numbers as scipy saves it: {reason}"
            ) from error
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def _check_size(file: IO[bytes]) -> None:
    """Check the size of a compressed file: one of nothing but zeros can be a thousand times as
    large when it is decompressed."""
    if not zipfile.is_zipfile(file):
        file.seek(0)
        return
    with zipfile.ZipFile(file) as archive:
        packed = sum(member.compress_size for member in archive.infolist())
        unpacked = sum(member.file_size for member in archive.infolist())
    file.seek(0)
    if unpacked > MOST_UNPACKED and unpacked > MOST_TIMES * packed:
        raise ValueError(
            f"it must be at most {MOST_TIMES} times as large when it is unpacked, but"
            f" {packed} bytes become {unpacked}"
        )


def _check_counts(matrix: Any, path: str) -> None:
    values = matrix.data
    wrong = np.flatnonzero(~((values > 0) & (values <= _LARGEST) & (values == np.floor(values))))
    if len(wrong):
        row = int(np.searchsorted(matrix.indptr, wrong[0], side="right")) - 1
        raise InputError(
            f"{path}, row {row} (from 0): a count must be a whole number from 0 to {_LARGEST},"
            f" got {values[wrong[0]]} in column {matrix.indices[wrong[0]]}"
        )


def _slice_rows(matrix: Any) -> Iterator[Rows]:
    for first in range(0, matrix.shape[0], BATCH_DOCUMENTS):
        bounds = matrix.indptr[first : first + BATCH_DOCUMENTS + 1].astype(np.int64)
        entries = slice(bounds[0], bounds[-1])
        yield (
            bounds - bounds[0],
            matrix.indices[entries].astype(np.int32),
            matrix.data[entries].astype(np.int32),
        )
