"""A corpus store as detection sees it: without near-duplicates, and with all words."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from atd_dask.kernels.blocks import Corpus, MemoryCorpus
from atd_dask.kernels.calibration import SomeRows
from atd_dask.kernels.model import Block, Ints
from atd_dask.storage.corpus import CorpusStore, reopen


class Representatives(SomeRows):
    """The documents of a store that are not near-duplicates, as a corpus of their own. Like the
    store, it is sent to other processes as a URL."""

    def __reduce__(self) -> tuple[Any, ...]:
        if isinstance(self.corpus, AllWords):
            return _without_copies, (self.corpus,)
        assert isinstance(self.corpus, CorpusStore)
        return _reopen, (self.corpus.url, self.corpus.digest)


def _reopen(url: str, digest: str) -> Representatives:
    store = reopen(url, digest)
    return Representatives(store, store.representatives())


def _without_copies(corpus: AllWords) -> Representatives:
    return Representatives(corpus, corpus.store.representatives())


@dataclass(frozen=True)
class AllWords:
    """A store together with unseen words, which are numbered after its vocabulary."""

    store: CorpusStore
    chosen: Ints  # the unseen words that count, ascending

    @property
    def vocabulary(self) -> tuple[str, ...]:
        unseen = self.store.unseen_words
        return (*self.store.vocabulary, *(unseen[word] for word in self.chosen.tolist()))

    @property
    def n_docs(self) -> int:
        return self.store.n_docs

    @property
    def n_words(self) -> int:
        return self.store.n_words + len(self.chosen)

    @property
    def n_entries(self) -> int:
        """An upper bound."""
        return self.store.n_entries + self.store.n_unseen_entries

    @property
    def digest(self) -> str:
        chosen = np.ascontiguousarray(self.chosen).data
        return hashlib.sha256(self.store.digest.encode() + chosen).hexdigest()

    @property
    def block_starts(self) -> Ints:
        return self.store.block_starts

    @cached_property
    def _numbers(self) -> Ints:
        """Return the number of each unseen word here, or -1 if it is left out."""
        numbers = np.full(len(self.store.unseen_words), -1)
        numbers[self.chosen] = self.store.n_words + np.arange(len(self.chosen))
        return numbers

    def block(self, index: int) -> Block:
        return self.rows(int(self.block_starts[index]), int(self.block_starts[index + 1]))

    def rows(self, start: int, stop: int) -> Block:
        known, beside = self.store.rows(start, stop), self.store.unseen_rows(start, stop)
        numbers = self._numbers[beside.terms]
        kept = numbers >= 0
        owners = [np.repeat(np.arange(len(part)), np.diff(part.indptr)) for part in (known, beside)]
        owner = np.concatenate((owners[0], owners[1][kept]))
        order = np.argsort(owner, kind="stable")
        sizes = np.bincount(owner, minlength=stop - start)
        return Block(
            np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes))),
            np.concatenate((known.terms, numbers[kept].astype(np.int32)))[order],
            np.concatenate((known.counts, beside.counts[kept]))[order],
            start,
        )

    def lengths(self) -> Ints:
        blocks = map(self.block, range(len(self.block_starts) - 1))
        lengths = [MemoryCorpus(block, self.n_words).lengths() for block in blocks]
        return np.concatenate([np.zeros(0, np.int64), *lengths])

    def without_copies(self) -> Corpus:
        return _without_copies(self) if self.store.n_copies else self


def with_all_words(store: CorpusStore, known: Collection[str] = ()) -> AllWords:
    """Return a store with its unseen words, except those that are `known` otherwise or occur only
    in near-duplicates."""
    known = frozenset(known)
    words = store.unseen_words
    chosen = [word for word in _find_occurring(store).tolist() if words[word] not in known]
    return AllWords(store, np.array(chosen, dtype=np.int64))


def _find_occurring(store: CorpusStore) -> Ints:
    """Return the unseen words of documents that are not near-duplicates."""
    occurs = np.zeros(len(store.unseen_words), dtype=np.bool_)
    kept = store.representatives()
    for start, stop in pairwise(store.block_starts.tolist()):
        block = store.unseen_rows(start, stop)
        mine = kept[(kept >= start) & (kept < stop)] - start
        occurs[block.take(mine).terms] = True
    return np.flatnonzero(occurs)
