"""The text store: the texts of a batch, only for the page. Nothing is computed from it.

    bytes           the texts one after the other, in UTF-8
    ends            where each document's text ends in `bytes`, after a 0
    corpus          the digest of the corpus store that has the same documents
    manifest.json   what was written

It is separate from the corpus store, which is the same whether texts are kept or not.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from types import TracebackType
from typing import Self

import numpy as np

from atd_dask.errors import InputError
from atd_dask.storage.groups import TEXT, GroupWriter, SealedGroup

KIND = "texts"
VERSION = 1
FORMAT = f"atd-dask-{KIND}/{VERSION}"

# Fixed by the format, so that every machine writes the same bytes.
CHUNK_BYTES = 2**19
CHUNK_DOCUMENTS = 2**14

_INT64 = np.dtype(np.int64)
_UINT8 = np.dtype(np.uint8)


class TextStore:
    """The texts of the documents of a corpus store, read row by row."""

    def __init__(self, group: SealedGroup) -> None:
        self._group = group
        self.url = group.url
        self.digest = group.manifest.digest
        self.n_docs = group.manifest.counts["documents"]
        self.n_bytes = group.manifest.counts["text_bytes"]

    @classmethod
    def open(cls, url: str | os.PathLike[str]) -> TextStore:
        return cls(SealedGroup.open(url, KIND, VERSION))

    @property
    def corpus(self) -> str:
        """The digest of the corpus store with the same documents."""
        return str(self._group.read("corpus"))

    def read(self, row: int) -> str:
        """Return the text of one document, reading only the chunks that have it."""
        if not 0 <= row < self.n_docs:
            raise IndexError(f"{self.url} has {self.n_docs} documents, got row {row}")
        first, last = self._group.read("ends", row, row + 2).tolist()
        return self._group.read("bytes", first, last).tobytes().decode("utf-8", "replace")


class TextWriter:
    """Writes a text store, which replaces an older one when the `with` block succeeds.

    If the block fails, nothing of it remains and the older store stays. Memory does not grow with
    the texts.
    """

    def __init__(self, url: str | os.PathLike[str], corpus: str) -> None:
        self._corpus = corpus
        self._group = GroupWriter(url, FORMAT)
        self._n_docs = 0
        self._n_bytes = 0

    def __enter__(self) -> Self:
        self._group.__enter__()
        try:
            self._group.group("", {})
            self._bytes = self._group.stream("bytes", _UINT8, CHUNK_BYTES)
            self._ends = self._group.stream("ends", _INT64, CHUNK_DOCUMENTS)
            self._ends.append([0])
            self._group.put("corpus", np.array(self._corpus, dtype=TEXT))
        except BaseException:
            self._group.__exit__(None, None, None)
            raise
        return self

    def append(self, texts: Iterable[bytes]) -> None:
        """Add the texts of further documents, encoded as UTF-8."""
        ends = []
        for text in texts:
            try:
                text.decode("utf-8")
            except UnicodeDecodeError as error:
                location = f"the text of document {self._n_docs}"
                raise InputError(f"{location} must be UTF-8: {error}") from error
            self._bytes.append(np.frombuffer(text, dtype=np.uint8))
            self._n_bytes += len(text)
            self._n_docs += 1
            ends.append(self._n_bytes)
        self._ends.append(ends)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._group.seal({"documents": self._n_docs, "text_bytes": self._n_bytes})
        finally:
            self._group.__exit__(kind, error, trace)
