"""Helpers for the tests of readers: all documents of a source, and bags of words."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from atd_dask.documents import Document, Skipped
from atd_dask.text.options import Source, TextOptions
from atd_dask.text.readers import shards
from atd_dask.text.words import Tokeniser


def read_items(
    format: str, path: Path | str, options: TextOptions | None = None, **source: Any
) -> list[Document | Skipped]:
    """Everything that a source yields, with every shard pickled as on its way to a worker."""
    found = shards(Source(format, str(path), **source), options or TextOptions())
    return [item for shard in found for item in pickle.loads(pickle.dumps(shard)).read()]


def read_documents(
    format: str, path: Path | str, options: TextOptions | None = None, **source: Any
) -> list[Document]:
    """The documents of a source that must yield nothing else."""
    items = read_items(format, path, options, **source)
    documents = [item for item in items if isinstance(item, Document)]
    assert documents == items
    return documents


def read_bags(
    format: str, path: Path | str, options: TextOptions
) -> Iterator[tuple[Document, Counter[str]]]:
    """The documents of a source with their words counted; skipped ones are left out."""
    tokeniser = Tokeniser(options)
    for shard in shards(Source(format, str(path)), options):
        for item in shard.read():
            if isinstance(item, Document):
                yield item, Counter(tokeniser.words(item.text))
