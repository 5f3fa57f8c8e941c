"""The corpus store: counts of words in documents, in AnnData's encoding, in blocks of documents.

    X               documents × words, CSR: the counts of the words of the vocabulary
    obs             for each document `id`, `labels` (joined by tabs), `length` (tokens of known
                    words) and `unseen` (tokens of words that the vocabulary does not have); where
                    near-copies were looked for also `copy_of` (the row of the document that stands
                    for it, -1 where there is none) and `in_training` (1 in a group of copies that
                    has a counterpart in training)
    var             the vocabulary, `word`
    obsm/unseen     documents × unseen words, CSR
    uns             `unseen_words`, `block_starts` (the last entry is the number of documents) and
                    `attributes` (JSON: where the corpus comes from)
    manifest.json   what was written

Blocks are a property of the store: every sum over documents is taken in their order, so that
results do not depend on who computes them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from atd_dask.documents import Copies, CountBatch
from atd_dask.errors import InputError
from atd_dask.kernels.model import Block
from atd_dask.storage.groups import SealedGroup

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from atd_dask.kernels.blocks import Corpus

KIND = "corpus"
VERSION = 2
FORMAT = f"atd-dask-{KIND}/{VERSION}"

LABEL_SEPARATOR = "\t"


class CorpusStore:
    """A corpus that was written by `CorpusWriter`.

    It travels to other processes as its URL, and is opened anew there. Whatever it hands out was
    checked against the checksums of the chunks it came from.
    """

    def __init__(self, group: SealedGroup) -> None:
        self._group = group
        self.url = group.url
        self.digest = group.manifest.digest
        counts = group.manifest.counts
        self.n_docs = counts["documents"]
        self.n_words = counts["words"]
        self.n_entries = counts["entries"]
        self.n_tokens = counts["tokens"]
        self.n_blocks = counts["blocks"]
        # None where they were not looked for: all documents stand for themselves.
        self.n_copies: int | None = counts.get("copies")
        # None where documents have no dates.
        self.n_dated: int | None = counts.get("dated")

    @classmethod
    def open(cls, url: str | os.PathLike[str]) -> CorpusStore:
        return cls(SealedGroup.open(url, KIND, VERSION))

    def __reduce__(self) -> tuple[Any, ...]:
        return reopen, (self.url, self.digest)

    @cached_property
    def attributes(self) -> dict[str, Any]:
        """Where the corpus comes from, as the writer was told."""
        attributes: dict[str, Any] = json.loads(str(self._group.read("uns/attributes")))
        return attributes

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        return tuple(self._group.read("var/word").tolist())

    @cached_property
    def unseen_words(self) -> tuple[str, ...]:
        return tuple(self._group.read("uns/unseen_words").tolist())

    @cached_property
    def block_starts(self) -> NDArray[np.int64]:
        """The first document of every block, and the number of documents."""
        starts = self._group.read("uns/block_starts")
        whole = len(starts) == self.n_blocks + 1 and starts[0] == 0 and starts[-1] == self.n_docs
        if not whole or np.any(np.diff(starts) < 0):
            raise self._refuse("uns/block_starts", "ascend from 0 to the number of documents")
        return starts

    def block(self, index: int) -> Block:
        """One block of documents, read without the rest of the corpus."""
        if not 0 <= index < self.n_blocks:
            raise IndexError(f"the blocks of {self.url} are 0 to {self.n_blocks - 1}, got {index}")
        return self.rows(int(self.block_starts[index]), int(self.block_starts[index + 1]))

    def rows(self, start: int, stop: int) -> Block:
        """The documents from `start` to before `stop`."""
        if not 0 <= start <= stop <= self.n_docs:
            raise IndexError(f"{self.url} has {self.n_docs} documents, got {start} to {stop}")
        return Block(*self._read_csr("X", start, stop, self.n_words), start)

    def _read_csr(
        self, path: str, start: int, stop: int, n_columns: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
        """Rows that a kernel can walk through: it looks at no bound itself."""
        indptr = self._group.read(f"{path}/indptr", start, stop + 1)
        first, last = int(indptr[0]), int(indptr[-1])
        if first < 0 or np.any(np.diff(indptr) < 0):
            raise self._refuse(f"{path}/indptr", "ascend from 0")
        terms = self._group.read(f"{path}/indices", first, last)
        counts = self._group.read(f"{path}/data", first, last)
        if not len(terms) == len(counts) == last - first:
            raise self._refuse(f"{path}/indptr", f"end with the last entry of {path}/data")
        if len(terms) and not 0 <= terms.min() <= terms.max() < n_columns:
            raise self._refuse(f"{path}/indices", f"be from 0 to {n_columns - 1}")
        if len(counts) and counts.min() < 1:
            raise self._refuse(f"{path}/data", "be at least 1")
        return indptr - first, terms, counts

    def _refuse(self, path: str, rule: str) -> InputError:
        return InputError(
            f"the numbers of {path} in the store {self.url} must {rule}, but do not: make the store"
            " again from its documents"
        )

    def ids(self, start: int = 0, stop: int | None = None) -> list[str]:
        ids: list[str] = self._group.read("obs/id", start, stop).tolist()
        return ids

    def labels(self, start: int = 0, stop: int | None = None) -> list[tuple[str, ...]]:
        joined = self._group.read("obs/labels", start, stop).tolist()
        return [tuple(text.split(LABEL_SEPARATOR)) if text else () for text in joined]

    def lengths(self) -> NDArray[np.int64]:
        """For every document the tokens of words of the vocabulary."""
        return self._group.read("obs/length")

    def dates(self, start: int = 0, stop: int | None = None) -> NDArray[np.int64] | None:
        """For every document the seconds since 1970, `NO_DATE` for one that has none; None where
        dates were not read."""
        return None if self.n_dated is None else self._group.read("obs/date", start, stop)

    def copies(self) -> Copies | None:
        """The near-copies; None where they were not looked for."""
        if self.n_copies is None:
            return None
        in_training = self._group.read("obs/in_training").astype(np.bool_)
        return Copies(self._group.read("obs/copy_of"), in_training)

    def representatives(self) -> NDArray[np.int64]:
        """The rows of the documents that are no copies."""
        copies = self.copies() if self.n_copies else None
        if copies is None:
            return np.arange(self.n_docs)
        return np.flatnonzero(copies.copy_of < 0)

    def without_copies(self) -> Corpus:
        """The corpus in which one document stands for its copies; the row of a document there is
        its place among `representatives`."""
        from atd_dask.storage.representatives import Representatives  # slow to load

        return Representatives(self, self.representatives()) if self.n_copies else self

    def unseen(self) -> csr_matrix:
        """Documents × unseen words: how often each word that the vocabulary lacks occurs."""
        return self._matrix("obsm/unseen", self._n_unseen_words)

    def unseen_rows(self, start: int, stop: int) -> Block:
        """The words that the vocabulary lacks, of the documents from `start` to before `stop`."""
        return Block(*self._read_csr("obsm/unseen", start, stop, self._n_unseen_words), start)

    @cached_property
    def _n_unseen_words(self) -> int:
        return int(self._group.array("uns/unseen_words").shape[0])

    @cached_property
    def n_unseen_entries(self) -> int:
        return int(self._group.read("obsm/unseen/indptr", self.n_docs, self.n_docs + 1)[0])

    def matrix(self) -> csr_matrix:
        """Documents × words, all of it in memory."""
        return self._matrix("X", self.n_words)

    def _matrix(self, path: str, n_columns: int) -> csr_matrix:
        from scipy.sparse import csr_matrix

        indptr, terms, counts = self._read_csr(path, 0, self.n_docs, n_columns)
        return csr_matrix((counts, terms, indptr), shape=(self.n_docs, n_columns))

    def batches(self) -> Iterator[CountBatch]:
        """The whole corpus, a block at a time."""
        for index in range(self.n_blocks):
            block = self.block(index)
            stop = block.start + len(block)
            yield CountBatch(
                self.ids(block.start, stop),
                self.labels(block.start, stop),
                block.indptr,
                block.terms,
                block.counts,
                dates=self.dates(block.start, stop),
            )


def reopen(url: str, digest: str) -> CorpusStore:
    """A store that has arrived in another process."""
    store = CorpusStore.open(url)
    if store.digest != digest:
        raise InputError(
            f"the store {url} must stay as it is while it is in use, but it was replaced: "
            "start again with the new store"
        )
    return store
