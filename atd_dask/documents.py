"""What travels between the rooms while a corpus is made: documents, and batches of counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
