"""A corpus store without its near-copies."""

from __future__ import annotations

from typing import Any

from atd_dask.kernels.reference import SomeRows
from atd_dask.storage.corpus import CorpusStore, reopen


class Representatives(SomeRows):
    """The documents of a store that are no copies, as a corpus of their own. Like the store it
    travels as a URL."""

    def __reduce__(self) -> tuple[Any, ...]:
        assert isinstance(self.corpus, CorpusStore)
        return _reopen, (self.corpus.url, self.corpus.digest)


def _reopen(url: str, digest: str) -> Representatives:
    store = reopen(url, digest)
    return Representatives(store, store.representatives())
