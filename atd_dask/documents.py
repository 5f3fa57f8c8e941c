"""What travels between the rooms while a corpus is made: documents, and batches of counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from atd_dask.errors import InputError

PARTS = ("train", "validation", "test")

# What a few bytes can ask for: a place in memory for every word and every row up to the largest.
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
    """A document that was not taken, and why; `location` says where it stands."""

    reason: str
    location: str
    times: int = 1  # for how many documents it stands


class Shard(Protocol):
    """A piece of a raw corpus that one task reads: small, picklable, and in a fixed order."""

    def read(self) -> Iterator[Document | Skipped]: ...


@dataclass(frozen=True, slots=True)
class CountBatch:
    """Consecutive documents as rows of a CSR matrix.

    Within a row every term stands once, in ascending order unless said otherwise, and no count is
    zero. `texts` has the text of each document in UTF-8, where it is to be kept.
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

    def take_documents(self, keep: NDArray[np.bool_]) -> CountBatch:
        """The documents where `keep` (documents) is true, in their order."""
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
        """All documents with every term t named numbers[t]; entries with a negative number are
        left out. The terms of a document come in any order: see `sort`."""
        terms = numbers[self.terms]
        keep = terms >= 0
        if keep.all():
            return replace(self, terms=terms)
        indptr = _offsets(keep)[self.indptr]
        return replace(self, indptr=indptr, terms=terms[keep], counts=self.counts[keep])

    def sort(self, n_terms: int) -> CountBatch:
        """All documents with their terms in order."""
        from scipy.sparse import csr_array

        # There and back: two bucket sorts, in time proportional to the entries.
        matrix = csr_array(
            (self.counts, self.terms, self.indptr), shape=(len(self), n_terms)
        ).tocsc()
        matrix = matrix.tocsr()
        return replace(self, terms=matrix.indices.astype(np.int32), counts=matrix.data)


@dataclass(frozen=True)
class Copies:
    """Which documents of a corpus are near-copies of one that stands for them."""

    copy_of: NDArray[np.int64]  # documents: the row of that document, -1 where there is none
    in_training: NDArray[np.bool_]  # documents: those of a group with a counterpart in training
    # documents: those like one of training; known where they are looked for, not kept
    counterparts: NDArray[np.bool_] | None = None


def as_rows(matrix: Any) -> Any:
    """A sparse matrix, or an array, as CSR of its own. A `ValueError` where its parts contradict
    each other: SciPy would read and write beyond their ends."""
    from scipy import sparse

    if sparse.issparse(matrix):
        if hasattr(matrix, "check_format"):
            matrix.check_format(full_check=True)
        elif matrix.format == "coo":
            for size, places in zip(matrix.shape, matrix.coords, strict=True):
                if len(places) != len(matrix.data):
                    raise ValueError("every value must have its place")
                if len(places) and not 0 <= places.min() <= places.max() < size:
                    raise ValueError(f"places must be from 0 to {size - 1}")
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
    """The words of documents without a vocabulary: numbers that name themselves."""
    if n_words > MOST_NUMBERED:
        raise InputError(
            f"{where} must have at most {MOST_NUMBERED} words as long as no vocabulary names them,"
            f" has {n_words}"
        )
    return tuple(map(str, range(n_words)))


def _offsets(sizes: NDArray[Any]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
