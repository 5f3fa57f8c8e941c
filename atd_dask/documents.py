"""What travels between the rooms while a corpus is made: documents, and batches of counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Document:
    """A document as a reader found it. `labels` are for evaluation only."""

    id: str
    text: str
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Skipped:
    """A document that was not taken, and why; `place` says where it stands."""

    reason: str
    place: str


class Shard(Protocol):
    """A piece of a raw corpus that one task reads: small, picklable, and in a fixed order."""

    def read(self) -> Iterator[Document | Skipped]: ...


@dataclass(frozen=True, slots=True)
class CountBatch:
    """Consecutive documents as rows of a CSR matrix.

    Within a row the terms ascend and no count is zero.
    """

    ids: Sequence[str]
    labels: Sequence[tuple[str, ...]]
    indptr: NDArray[np.int64]  # documents + 1
    terms: NDArray[np.int32]  # entries
    counts: NDArray[np.int32]  # entries

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self) -> NDArray[np.int64]:
        """The row of every entry."""
        return np.repeat(np.arange(len(self)), np.diff(self.indptr))

    def take_documents(self, keep: NDArray[np.bool_]) -> CountBatch:
        """The documents where `keep` (documents) is true, in their order."""
        entries = np.repeat(keep, np.diff(self.indptr))
        return CountBatch(
            ids=list(compress(self.ids, keep)),
            labels=list(compress(self.labels, keep)),
            indptr=_offsets(np.diff(self.indptr)[keep]),
            terms=self.terms[entries],
            counts=self.counts[entries],
        )

    def renumber(self, numbers: NDArray[np.int32]) -> CountBatch:
        """All documents with every term t renamed to numbers[t]; entries with a negative number
        are left out."""
        terms = numbers[self.terms]
        keep = terms >= 0
        rows, terms, counts = self.rows()[keep], terms[keep], self.counts[keep]
        order = np.lexsort((terms, rows))
        return CountBatch(
            ids=self.ids,
            labels=self.labels,
            indptr=_offsets(np.bincount(rows, minlength=len(self))),
            terms=terms[order],
            counts=counts[order],
        )


def _offsets(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
