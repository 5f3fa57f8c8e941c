"""Collects what is new in a repository since the last sweep."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np

from atd_dask.config.run_config import RunConfig
from atd_dask.distribution.counting import count_shards
from atd_dask.distribution.spooling import CountSpool
from atd_dask.stages.checks import warn_of_skipped, warn_of_unseen
from atd_dask.stages.reading import counted_pieces, open_counted
from atd_dask.stages.storing import store_part, store_texts
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.stage_notes import PartSummary
from atd_dask.sweeps.journal import NO_KEYS, Journal, Keys, join_keys, make_key
from atd_dask.text import readers
from atd_dask.text.counting import WordCounts, count_shard
from atd_dask.text.lexicon import Lexicon
from atd_dask.text.novelty import describe_documents
from atd_dask.text.readers.stamps import forget_listings, stamp_file

if TYPE_CHECKING:
    from atd_dask.distribution.engine.clients import Client
    from atd_dask.progress import Progress
    from atd_dask.text.readers.files import File

# At most this many shards are read in this process: a cluster would take longer to start.
FEW_SHARDS = 3


@dataclass(frozen=True)
class Collected:
    """New documents in their store, and the keys by which they and their files are recognised."""

    summary: PartSummary | None  # None if no document is new
    keys: Keys


def collect(
    config: RunConfig,
    journal: Journal,
    train: CorpusStore,
    client: Client,
    progress: Progress,
) -> Collected:
    """Read what the journal does not know, and store new documents as the part `new`.

    They are encoded with the vocabulary of `train`. A document is new if its id and words have not
    been seen together. Unchanged files are not opened.
    """
    repository = _Repository(config, journal)
    keys: list[Keys] = []
    with (
        closing(CountSpool(Lexicon())) as documents,
        progress.task("look for new documents", unit="documents") as task,
    ):
        for piece in repository.read(client):
            found = _find_keys(piece)
            fresh = ~journal.contains(found)
            keys.append(found[fresh])
            task.advance(len(found))
            documents.add(replace(piece, batch=piece.batch.take_documents(fresh)))
        warn_of_skipped(documents, "corpus.test", progress)
        summary = None
        if documents.n_docs:
            summary = store_part(config, "new", documents, train.vocabulary, progress)
            store_texts(config, "new", documents, summary.digest, progress)
            warn_of_unseen(config, CorpusStore.open(summary.path), progress)
    return Collected(summary, np.concatenate([NO_KEYS, *keys, join_keys(repository.files)]))


def _find_keys(piece: WordCounts) -> Keys:
    return join_keys([make_key(b"document", *told) for told in describe_documents(piece)])


def _find_digest(path: str) -> str:
    return CorpusStore.open(path).digest


class _Repository:
    """The documents of `corpus.test`; `files` has the keys of the files that were read."""

    def __init__(self, config: RunConfig, journal: Journal) -> None:
        self.files: list[bytes] = []
        self._config = config
        self._journal = journal

    def read(self, client: Client) -> Iterator[WordCounts]:
        corpus = self._config.corpus
        source, options, keep_text = corpus.test, corpus.text, corpus.keep_text
        assert source is not None
        assert source.path is not None
        if source.format == "zarr" and not self._note(source.path, _find_digest(source.path)):
            return
        counted = open_counted(self._config, "test")
        if counted is not None:
            yield from counted_pieces(counted)
            return
        forget_listings(source.path)
        shards = readers.shards(source, options, self._is_unread)
        first = list(islice(shards, FEW_SHARDS))
        if len(first) < FEW_SHARDS:
            yield from (count_shard(shard, options, keep_text) for shard in first)
        else:
            yield from count_shards(client, chain(first, shards), options, keep_text)

    def _is_unread(self, file: File) -> bool:
        stamp = stamp_file(file)
        return stamp is None or self._note(file.url, stamp)

    def _note(self, url: str, stamp: str) -> bool:
        """Note that a file is read in its current state; return False if it was read before."""
        key = make_key(b"file", url.encode("utf-8", "surrogateescape"), stamp.encode())
        if self._journal.contains(join_keys([key]))[0]:
            return False
        self.files.append(key)
        return True
