"""Documents and batches of counts, the types that ingest passes between packages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from atd_dask.errors import InputError

PARTS = ("train", "validation", "test")

# A few bytes of input can claim any number of words and rows, each of which takes up memory.
MOST_NUMBERED = 2**21
MOST_EMPTY_ROWS = 2**24

# Stands for the date of a document that has none.
NO_DATE = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class Document:
    """A document as a reader found it. `labels` are for evaluation only."""

    id: str
    text: str
    labels: tuple[str, ...] = ()
    date: int | None = None  # seconds since 1970, UTC


@dataclass(frozen=True, slots=True)
class Skipped:
    """A document that was skipped: why, and where it is."""

    reason: str
    location: str
    times: int = 1  # number of documents


class Shard(Protocol):
    """A piece of a raw corpus that one task reads: small, picklable, in a fixed order."""

    def read(self) -> Iterator[Document | Skipped]: ...


@dataclass(frozen=True, slots=True)
class CountBatch:
    """Consecutive documents, as rows of a CSR matrix.

    A row has each term once, in ascending order unless stated otherwise, and no zeros. `texts` has
    the text of each document in UTF-8 if texts are kept. Terms and counts may be of a narrower type
    while they wait; see `pack`.
    """

    ids: Sequence[str]
    labels: Sequence[tuple[str, ...]]
    indptr: NDArray[np.int64]  # documents + 1
    terms: NDArray[np.int32]  # entries
    counts: NDArray[np.int32]  # entries
    texts: Sequence[bytes] | None = None
    dates: NDArray[np.int64] | None = None  # documents, where any has one

    def __len__(self) -> int:
        return len(self.ids)

    def __sizeof__(self) -> int:
        arrays = (self.indptr, self.terms, self.counts)
        texts = sum(map(len, self.texts or ()))
        return sum(array.nbytes for array in arrays) + 150 * len(self.ids) + texts

    def pack(self) -> CountBatch:
        """Return the same documents in less memory."""
        return replace(self, terms=_narrow(self.terms), counts=_narrow(self.counts))

    def take_documents(self, keep: NDArray[np.bool_]) -> CountBatch:
        """Return the documents where `keep` (documents) is true, in order."""
        entries = np.repeat(keep, np.diff(self.indptr))
        return CountBatch(
            ids=list(compress(self.ids, keep)),
            labels=list(compress(self.labels, keep)),
            indptr=_offsets(np.diff(self.indptr)[keep]),
            terms=self.terms[entries],
            counts=self.counts[entries],
            texts=None if self.texts is None else list(compress(self.texts, keep)),
            dates=None if self.dates is None else self.dates[keep],
        )

    def rename(self, numbers: NDArray[np.int32]) -> CountBatch:
        """Renumber term t as numbers[t], and drop the terms whose number is negative.

        The terms of a document are in no particular order afterwards; see `sort`.
        """
        terms = numbers[self.terms]
        counts = self.counts
        if counts.dtype.itemsize < 4:  # packed
            counts = counts.astype(np.int32)
        keep = terms >= 0
        if keep.all():
            return replace(self, terms=terms, counts=counts)
        indptr = _offsets(keep)[self.indptr]
        return replace(self, indptr=indptr, terms=terms[keep], counts=counts[keep])

    def sort(self, n_terms: int) -> CountBatch:
        """Return all documents, with their terms in ascending order."""
        from scipy.sparse import csr_array

        ascends = np.ones(len(self.terms) + 1, dtype=np.bool_)
        ascends[1:-1] = self.terms[1:] > self.terms[:-1]
        ascends[self.indptr] = True
        if ascends.all():
            return self
        # Converting there and back is two bucket sorts, so the time is linear in the entries.
        matrix = csr_array(
            (self.counts, self.terms, self.indptr), shape=(len(self), n_terms)
        ).tocsc()
        matrix = matrix.tocsr()
        return replace(self, terms=matrix.indices.astype(np.int32), counts=matrix.data)


@dataclass(frozen=True)
class Copies:
    """The near-duplicates in a corpus, and the document that represents each of them."""

    copy_of: NDArray[np.int64]  # documents: row of the representative, or -1
    in_training: NDArray[np.bool_]  # documents: group has a match in training
    # documents: like a training document; known during ingest, not stored
    counterparts: NDArray[np.bool_] | None = None


def as_rows(matrix: Any) -> Any:
    """Copy a sparse matrix or an array to CSR.

    Raises
    ------
    ValueError
        If the parts of the matrix contradict each other. SciPy would read and write out of bounds.
    """
    from scipy import sparse

    if hasattr(matrix, "to_scipy_sparse"):  # an array of the package sparse
        matrix = matrix.to_scipy_sparse()
    if sparse.issparse(matrix):
        if hasattr(matrix, "check_format"):
            matrix.check_format(full_check=True)
        elif matrix.format == "coo":
            for size, indices in zip(matrix.shape, matrix.coords, strict=True):
                if len(indices) != len(matrix.data):
                    raise ValueError("every value must have an index")
                if len(indices) and not 0 <= indices.min() <= indices.max() < size:
                    raise ValueError(f"indices must be from 0 to {size - 1}")
        if matrix.ndim == 2 and matrix.shape[0] > MOST_EMPTY_ROWS + matrix.nnz:
            raise ValueError(
                f"it must have at most {MOST_EMPTY_ROWS} rows without values,"
                f" has {matrix.shape[0]} rows with {matrix.nnz} values"
            )
    rows = sparse.csr_array(matrix, copy=True)
    if rows.ndim == 2:
        rows.check_format(full_check=True)
    return rows


def name_numbers(n_words: int, where: str) -> tuple[str, ...]:
    """Return the words of documents without a vocabulary: their numbers, as text."""
    if n_words > MOST_NUMBERED:
        raise InputError(
            f"{where} must have at most {MOST_NUMBERED} words unless a vocabulary names them,"
            f" has {n_words}"
        )
    return tuple(map(str, range(n_words)))


def _narrow(values: NDArray[Any]) -> NDArray[Any]:
    """Return integers in one or two bytes each, if they fit."""
    if values.min(initial=0) >= 0:
        for narrow in (np.uint8, np.uint16):
            if values.max(initial=0) <= np.iinfo(narrow).max:
                return values.astype(narrow)
    return values


def _offsets(sizes: NDArray[Any]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
