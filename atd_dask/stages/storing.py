"""Turns the documents of a corpus into stores: vocabulary, near-duplicates, counts, texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from atd_dask.config.run_config import RunConfig
from atd_dask.distribution.copies import find_copies
from atd_dask.distribution.spooling import CountSpool
from atd_dask.documents import Copies
from atd_dask.errors import InputError
from atd_dask.kernels.jit import STORE
from atd_dask.stages.scattering import Writing, write_documents
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.corpus_writer import ScatteredCorpusWriter
from atd_dask.storage.locations import Location
from atd_dask.storage.run_layout import RunLayout
from atd_dask.storage.stage_notes import PartSummary, SkippedDocuments, TextsSummary
from atd_dask.storage.texts import TextStore, TextWriter
from atd_dask.text.lexicon import Encoding
from atd_dask.text.options import describe_text

if TYPE_CHECKING:
    from atd_dask.progress import Progress


def choose_vocabulary(config: RunConfig, train: CountSpool) -> Sequence[str]:
    """Return the words of enough training documents, in alphabetical order."""
    least = config.corpus.text.min_document_frequency
    words = train.lexicon.words()
    vocabulary = sorted(words[n] for n in np.flatnonzero(train.frequencies() >= max(least, 1)))
    if not vocabulary:
        raise InputError(
            "the training documents must have a word that is kept, got none: look at "
            f"corpus.train and corpus.text (min_document_frequency is {least})"
        )
    return vocabulary


def look_for_copies(
    config: RunConfig, parts: Mapping[str, CountSpool], progress: Progress
) -> dict[str, Copies]:
    """Return the near-duplicates in each part, unless every document counts by itself."""
    if config.corpus.copies == "keep":
        return {}
    n_docs = sum(part.n_docs for part in parts.values())
    with progress.task("look for near-duplicates", n_docs, "documents", STORE.is_compiling) as task:
        return find_copies(parts, task.advance)


def store_part(
    config: RunConfig,
    part: str,
    documents: CountSpool,
    vocabulary: Sequence[str],
    progress: Progress,
    copies: Copies | None = None,
) -> PartSummary:
    """Write documents as a part of the corpus, over a vocabulary; return a summary."""
    found = {} if copies is None else {part: copies}
    return store_parts(
        config, {part: documents}, vocabulary, progress, lambda: found, has_copies=bool(found)
    )[part]


def store_parts(
    config: RunConfig,
    parts: Mapping[str, CountSpool],
    vocabulary: Sequence[str],
    progress: Progress,
    find: Callable[[], Mapping[str, Copies]],
    *,
    has_copies: bool,
) -> dict[str, PartSummary]:
    """Write the parts of a corpus over one vocabulary; return a summary of each.

    `find` returns the near-duplicates of each part, if the stores are to have them (`has_copies`).
    It is called while workers write. If it raises an error, nothing is stored.
    """
    copies: dict[str, Copies] = {}
    paths = {part: RunLayout(config.output).corpus(part) for part in parts}
    n_docs = sum(documents.n_docs for documents in parts.values())
    writings: dict[str, Writing] = {}
    with ExitStack() as stack:
        # The first one is left, and so finished, first.
        for part, documents in reversed(list(parts.items())):
            encoding = Encoding.choose(documents, vocabulary)
            writer = ScatteredCorpusWriter(
                paths[part],
                vocabulary,
                encoding.unseen_words,
                {
                    "part": part,
                    "dataset": config.corpus.dataset,
                    "text": describe_text(config.corpus.text),
                    "skipped": documents.skipped,
                },
                partial(copies.__getitem__, part) if has_copies else None,
                dated=documents.has_dates,
            )
            writings[part] = Writing(documents, encoding, stack.enter_context(writer))
        what = next(iter(parts)) if len(parts) == 1 else "documents"
        with progress.task(f"store {what}", n_docs, "documents") as task:
            in_order = [writings[part] for part in parts]
            write_documents(in_order, task.advance, lambda: copies.update(find()))
    return {part: _summarise(paths[part], writings[part]) for part in parts}


def _summarise(path: str, writing: Writing) -> PartSummary:
    store = CorpusStore.open(path)
    documents = writing.documents
    return PartSummary(
        path=path,
        digest=store.digest,
        documents=store.n_docs,
        copies=store.n_copies,
        tokens=store.n_tokens,
        terms=store.n_words,
        unseen_terms=len(writing.encoding.unseen_words),
        unseen_tokens=writing.n_unseen,
        skipped={
            reason: SkippedDocuments(documents=number, first=documents.examples[reason])
            for reason, number in documents.skipped.items()
        },
    )


def store_texts(
    config: RunConfig, part: str, documents: CountSpool, corpus: str, progress: Progress
) -> TextsSummary | None:
    """Store the texts of a part if they are kept; otherwise remove those of an earlier run."""
    path = RunLayout(config.output).texts(part)
    if not documents.has_texts:
        location = Location.of(path)
        location.check_replaceable()
        location.remove()
        return None
    with (
        TextWriter(path, corpus) as writer,
        progress.task("store texts", documents.n_docs, "documents") as task,
    ):
        for texts in documents.texts():
            writer.append(texts)
            task.advance(len(texts))
    return TextsSummary(path=path, digest=TextStore.open(path).digest)
