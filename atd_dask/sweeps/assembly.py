"""Joins documents from several stores, with all their words: the batch of a sweep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atd_dask.distribution.spooling import CountSpool
from atd_dask.documents import CountBatch
from atd_dask.storage.corpus import CorpusStore
from atd_dask.text.counting import WordCounts
from atd_dask.text.lexicon import Lexicon

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Assembly:
    """Documents of several stores, in the order of the stores and of their rows."""

    stores: tuple[CorpusStore, ...]
    owners: NDArray[np.int64]  # for each document the index of its store
    rows: NDArray[np.int64]  # and its row in it

    @classmethod
    def of(cls, stores: Sequence[CorpusStore], keep: Sequence[Mask]) -> Assembly:
        """Take the documents for which `keep` is true, store by store."""
        rows = [np.flatnonzero(mask) for mask in keep]
        owners = np.repeat(np.arange(len(rows)), [len(some) for some in rows])
        return cls(tuple(stores), owners, np.concatenate([np.zeros(0, np.int64), *rows]))

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, documents: NDArray[np.int64]) -> Assembly:
        """Return some of the documents, given in ascending order."""
        return replace(self, owners=self.owners[documents], rows=self.rows[documents])

    def pieces(self) -> Iterator[WordCounts]:
        for index, store in enumerate(self.stores):
            keep = np.zeros(store.n_docs, dtype=np.bool_)
            keep[self.rows[self.owners == index]] = True
            if keep.any():
                yield from read_pieces(store, keep)


def read_pieces(store: CorpusStore, keep: Mask) -> Iterator[WordCounts]:
    """Yield some documents of a store with all their words, including those outside its
    vocabulary."""
    words = (*store.vocabulary, *store.unseen_words)
    unseen = store.unseen()
    first = 0
    for batch in store.batches():
        last = first + len(batch)
        whole = _join_terms(batch, unseen[first:last], store.n_words)
        yield WordCounts(words, whole.take_documents(keep[first:last]))
        first = last


def _join_terms(batch: CountBatch, beside: Any, n_words: int) -> CountBatch:
    """Append the counts of a matrix to a batch; its terms are numbered from `n_words`."""
    from scipy.sparse import csr_matrix, hstack

    known = csr_matrix((batch.counts, batch.terms, batch.indptr), shape=(len(batch), n_words))
    both = hstack([known, beside], format="csr")
    return replace(
        batch,
        indptr=both.indptr.astype(np.int64),
        terms=both.indices.astype(np.int32),
        counts=both.data.astype(np.int32),
    )


def gather(pieces: Iterable[WordCounts], lexicon: Lexicon | None = None) -> CountSpool:
    """Return documents ready to be stored, with the lexicon of others if given; the caller closes
    it."""
    documents = CountSpool(lexicon or Lexicon())
    try:
        for piece in pieces:
            documents.add(piece)
    except BaseException:
        documents.close()
        raise
    return documents
