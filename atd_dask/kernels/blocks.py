"""Cuts a corpus into blocks of documents.

Blocks are a property of the corpus, not of the cluster: every sum over documents is taken in the
order of blocks, so that a result does not depend on where it is computed.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from atd_dask.kernels.model import Block, Ints

# A block ends with the document that fills it.
BLOCK_ENTRIES = 2**17
BLOCK_DOCUMENTS = 2**14


class BlockCutter:
    """Cuts a stream of documents into blocks."""

    def __init__(self, n_entries: int = BLOCK_ENTRIES, n_docs: int = BLOCK_DOCUMENTS) -> None:
        self._n_entries = n_entries
        self._n_docs = n_docs
        self._starts = [0]
        self._entries_before = 0

    def extend(self, first: int, ends: NDArray[np.int64]) -> None:
        """Add documents from number `first` on; `ends` has the number of entries up to each."""
        while True:
            full = int(np.searchsorted(ends, self._entries_before + self._n_entries)) + 1
            size = min(first + full, self._starts[-1] + self._n_docs) - first
            if size > len(ends):
                return
            self._starts.append(first + size)
            self._entries_before = int(ends[size - 1])

    def finish(self, n_docs: int) -> list[int]:
        """Return the first document of every block, and the number of documents."""
        if self._starts[-1] != n_docs:
            self._starts.append(n_docs)
        return self._starts


class Corpus(Protocol):
    """A corpus in blocks, in memory or on disk. It can be sent to other processes."""

    @property
    def n_docs(self) -> int: ...

    @property
    def n_words(self) -> int: ...

    @property
    def n_entries(self) -> int: ...

    @property
    def digest(self) -> str: ...

    @property
    def block_starts(self) -> Ints: ...

    def block(self, index: int) -> Block: ...

    def rows(self, start: int, stop: int) -> Block: ...

    def lengths(self) -> Ints: ...


def join_blocks(corpus: Corpus, n_blocks: int) -> Ints:
    """Return the first document of every `n_blocks` blocks, and the number of documents."""
    bounds = corpus.block_starts.tolist()
    return np.unique([*bounds[:-1:n_blocks], bounds[-1]])


@dataclass(frozen=True)
class MemoryCorpus:
    """A corpus in memory, in the given blocks or else in those that a store would have."""

    whole: Block
    n_words: int
    starts: Ints | None = None  # the first document of every block, and the number of documents

    @classmethod
    def read(cls, corpus: Corpus) -> MemoryCorpus:
        """Read all documents of a corpus into memory, with its blocks."""
        return cls(corpus.rows(0, corpus.n_docs), corpus.n_words, corpus.block_starts)

    @property
    def n_docs(self) -> int:
        return len(self.whole)

    @property
    def n_entries(self) -> int:
        return len(self.whole.terms)

    @cached_property
    def digest(self) -> str:
        content = hashlib.sha256(str(self.n_words).encode())
        for array in self.whole.arrays:
            content.update(np.ascontiguousarray(array).data)
        return content.hexdigest()

    @cached_property
    def block_starts(self) -> Ints:
        if self.starts is not None:
            return self.starts
        cutter = BlockCutter()
        cutter.extend(0, self.whole.indptr[1:])
        return np.array(cutter.finish(self.n_docs))

    def block(self, index: int) -> Block:
        return self.rows(int(self.block_starts[index]), int(self.block_starts[index + 1]))

    def blocks(self) -> list[Block]:
        return [self.block(index) for index in range(len(self.block_starts) - 1)]

    def rows(self, start: int, stop: int) -> Block:
        return self.whole.part(start, stop)

    def lengths(self) -> Ints:
        sums = np.concatenate(([0], np.cumsum(self.whole.counts, dtype=np.int64)))
        return sums[self.whole.indptr[1:]] - sums[self.whole.indptr[:-1]]
