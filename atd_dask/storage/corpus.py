"""The corpus store: word counts of documents in AnnData's encoding, in blocks of documents.

    X               documents × words, CSR: the counts of the words of the vocabulary
    obs             for each document `id`, `labels` (joined by tabs), `length` (tokens of known
                    words) and `unseen` (tokens of words outside the vocabulary); if near-duplicates
                    were looked for also `copy_of` (the row of the document that stands for it, or
                    -1) and `in_training` (1 if its group of near-duplicates has a match in
                    training)
    var             the vocabulary, `word`
    obsm/unseen     documents × unseen words, CSR
    uns             `unseen_words`, `block_starts` (the last entry is the number of documents) and
                    `attributes` (JSON: where the corpus comes from)
    manifest.json   what was written

Blocks are a property of the store. Every sum over documents is taken in their order, so results do
not depend on which worker computes what.
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
from atd_dask.json_records import JsonObject
from atd_dask.kernels.model import Block
from atd_dask.storage.groups import SealedGroup

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix
    from sparse import GCXS

    from atd_dask.kernels.blocks import Corpus

KIND = "corpus"
VERSION = 2
FORMAT = f"atd-dask-{KIND}/{VERSION}"

LABEL_SEPARATOR = "\t"


class CorpusStore:
    """A corpus on disk, written by `CorpusWriter`.

    It is sent to other processes as its URL, and opened again there. Everything it returns has been
    verified against the checksums of its chunks.

    Attributes
    ----------
    url : str
        Where the store is.
    n_docs, n_words, n_entries, n_tokens : int
        The size of the matrix of counts, its nonzero entries and their sum.
    n_copies : int or None
        The number of near-duplicates, None if nobody looked for them.
    vocabulary : tuple of str
        The words, in the order of the columns.

    Examples
    --------
    A fitted model and a search read a store as it is; other tools take its matrix:

    >>> import tempfile
    >>> from random import Random
    >>> import atd_dask
    >>> random = Random(1)
    >>> def write(words):
    ...     return " ".join(random.choices(words.split(), k=30))
    >>> texts = [write("quick brown foxes jump over lazy dogs") for _ in range(240)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = atd_dask.find(texts[:200], texts[200:], output=folder, progress=False)
    ...     store = atd_dask.CorpusStore.open(f"{folder}/run/corpus/test.zarr")
    ...     store.vocabulary, store.to_sparse().sum(axis=1)[:3].todense()
    (('brown', 'dog', 'fox', 'jump', 'lazi', 'over', 'quick'), array([30, 30, 30]))
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
        # None if nobody looked for them: then every document stands for itself.
        self.n_copies: int | None = counts.get("copies")
        # None if documents have no dates.
        self.n_dated: int | None = counts.get("dated")

    @classmethod
    def open(cls, url: str | os.PathLike[str]) -> CorpusStore:
        """Open the store at a path or URL.

        Parameters
        ----------
        url
            The path or URL of the store.

        Returns
        -------
        CorpusStore

        Raises
        ------
        InputError
            If there is no corpus store.
        """
        return cls(SealedGroup.open(url, KIND, VERSION))

    def __reduce__(self) -> tuple[Any, ...]:
        return reopen, (self.url, self.digest)

    @cached_property
    def attributes(self) -> JsonObject:
        """Return where the corpus comes from."""
        attributes: JsonObject = json.loads(str(self._group.read("uns/attributes")))
        return attributes

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        return tuple(self._group.read("var/word").tolist())

    @cached_property
    def unseen_words(self) -> tuple[str, ...]:
        return tuple(self._group.read("uns/unseen_words").tolist())

    @cached_property
    def block_starts(self) -> NDArray[np.int64]:
        """Return the first document of every block, followed by the number of documents."""
        starts = self._group.read("uns/block_starts")
        whole = len(starts) == self.n_blocks + 1 and starts[0] == 0 and starts[-1] == self.n_docs
        if not whole or np.any(np.diff(starts) < 0):
            raise self._refuse("uns/block_starts", "ascend from 0 to the number of documents")
        return starts

    def block(self, index: int) -> Block:
        """Read a block of documents, without the rest of the corpus."""
        if not 0 <= index < self.n_blocks:
            raise IndexError(f"the blocks of {self.url} are 0 to {self.n_blocks - 1}, got {index}")
        return self.rows(int(self.block_starts[index]), int(self.block_starts[index + 1]))

    def rows(self, start: int, stop: int) -> Block:
        """Read the documents from `start` to before `stop`."""
        if not 0 <= start <= stop <= self.n_docs:
            raise IndexError(f"{self.url} has {self.n_docs} documents, got {start} to {stop}")
        return Block(*self._read_csr("X", start, stop, self.n_words), start)

    def _read_csr(
        self, path: str, start: int, stop: int, n_columns: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
        """Read rows, and check them: kernels do no bounds checking."""
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
        """Return the ids of documents."""
        ids: list[str] = self._group.read("obs/id", start, stop).tolist()
        return ids

    def labels(self, start: int = 0, stop: int | None = None) -> list[tuple[str, ...]]:
        """Return the labels of documents."""
        joined = self._group.read("obs/labels", start, stop).tolist()
        return [tuple(text.split(LABEL_SEPARATOR)) if text else () for text in joined]

    def lengths(self) -> NDArray[np.int64]:
        """Return the number of tokens of known words of each document."""
        return self._group.read("obs/length")

    def dates(self, start: int = 0, stop: int | None = None) -> NDArray[np.int64] | None:
        """Return the date of each document in seconds since 1970, or `NO_DATE` if it has none; None
        if dates were not read."""
        return None if self.n_dated is None else self._group.read("obs/date", start, stop)

    def copies(self) -> Copies | None:
        """Return the near-duplicates, or None if nobody looked for them."""
        if self.n_copies is None:
            return None
        in_training = self._group.read("obs/in_training").astype(np.bool_)
        return Copies(self._group.read("obs/copy_of"), in_training)

    def representatives(self) -> NDArray[np.int64]:
        """Return the rows of the documents that are not near-duplicates of another."""
        copies = self.copies() if self.n_copies else None
        if copies is None:
            return np.arange(self.n_docs)
        return np.flatnonzero(copies.copy_of < 0)

    def without_copies(self) -> Corpus:
        """Return the corpus without near-duplicates; its row i is row `representatives()[i]`
        here."""
        from atd_dask.storage.representatives import Representatives  # slow to load

        return Representatives(self, self.representatives()) if self.n_copies else self

    def unseen(self) -> csr_matrix:
        """Return the counts of words outside the vocabulary, documents × unseen words."""
        return self._matrix("obsm/unseen", self._n_unseen_words)

    def unseen_rows(self, start: int, stop: int) -> Block:
        """Return the words outside the vocabulary of the documents from `start` to before
        `stop`."""
        return Block(*self._read_csr("obsm/unseen", start, stop, self._n_unseen_words), start)

    @cached_property
    def _n_unseen_words(self) -> int:
        return int(self._group.array("uns/unseen_words").shape[0])

    @cached_property
    def n_unseen_entries(self) -> int:
        return int(self._group.read("obsm/unseen/indptr", self.n_docs, self.n_docs + 1)[0])

    def matrix(self) -> csr_matrix:
        """Return the counts as a SciPy matrix, documents × words, in memory."""
        return self._matrix("X", self.n_words)

    def to_sparse(self, unseen: bool = False) -> GCXS:
        """Return the counts as an array of the package `sparse`, in memory.

        Parameters
        ----------
        unseen
            Return the counts of the words outside the vocabulary instead.

        Returns
        -------
        sparse.GCXS
            Documents × words, compressed by rows like the store itself. It behaves like a NumPy
            array: it can be sliced, summed and broadcast, and be a block of a Dask array.

        Examples
        --------
        See `CorpusStore`.
        """
        import sparse

        path, n_columns = "X", self.n_words
        if unseen:
            path, n_columns = "obsm/unseen", self._n_unseen_words
        indptr, terms, counts = self._read_csr(path, 0, self.n_docs, n_columns)
        shape = (self.n_docs, n_columns)
        return sparse.GCXS((counts, terms, indptr), shape=shape, compressed_axes=(0,))

    def _matrix(self, path: str, n_columns: int) -> csr_matrix:
        from scipy.sparse import csr_matrix

        indptr, terms, counts = self._read_csr(path, 0, self.n_docs, n_columns)
        return csr_matrix((counts, terms, indptr), shape=(self.n_docs, n_columns))

    def batches(self) -> Iterator[CountBatch]:
        """Yield the whole corpus, a block at a time."""
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
    """Open a store that was sent to another process."""
    store = CorpusStore.open(url)
    if store.digest != digest:
        raise InputError(
            f"the store {url} must stay as it is while it is in use, but it was replaced: "
            "start again with the new store"
        )
    return store
