"""Reads, checks and stores the corpus of a configuration."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TYPE_CHECKING

from atd_dask.config.run_config import RunConfig
from atd_dask.distribution.spooling import CountSpool
from atd_dask.documents import PARTS, Copies
from atd_dask.kernels.jit import STORE
from atd_dask.stages.checks import check_batch, check_documents, warn_of_unseen
from atd_dask.stages.reading import (
    CorpusInputs,
    Pieces,
    gather_dataset,
    gather_parts,
)
from atd_dask.stages.storing import choose_vocabulary, look_for_copies, store_parts, store_texts
from atd_dask.stages.text_settings import lacks_segmentation, resolve_language
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.stage_notes import CorpusSummary
from atd_dask.text import datasets
from atd_dask.text.lexicon import Lexicon
from atd_dask.text.segmentation import MISSING

if TYPE_CHECKING:
    from atd_dask.distribution.engine.clients import Client
    from atd_dask.progress import Progress


def make_corpus(
    config: RunConfig, client: Client, progress: Progress, inputs: CorpusInputs
) -> CorpusSummary:
    """Make the stores of all parts, and return a summary of each. What the inputs contain that are
    hashed as they are read is noted in `inputs`."""
    config = resolve_language(config, progress)
    lexicon = Lexicon()
    has_copies = config.corpus.copies != "keep"
    with ExitStack() as scratch:

        def gather(name: str, pieces: Pieces) -> CountSpool:
            spool = CountSpool(lexicon, pieces.runner, signs_ahead=has_copies)
            scratch.enter_context(closing(spool))
            is_compiling = STORE.is_compiling
            with progress.task(f"read {name}", pieces.expect(), "documents", is_compiling) as task:
                for n_docs in pieces.fill(spool):
                    task.total = pieces.expect()
                    task.advance(n_docs)
            check_documents(config, name, spool, progress)
            return spool

        vocabulary: Sequence[str] | None = None
        if config.corpus.dataset in datasets.NAMES:
            parts = gather_dataset(config, client, gather)
        else:
            parts, vocabulary = gather_parts(config, client, gather, inputs)
        for part in parts.values():
            scratch.enter_context(closing(part))
        if lacks_segmentation(config.corpus.text, lexicon.words()):
            progress.warn(MISSING)
        if vocabulary is None:
            vocabulary = choose_vocabulary(config, parts["train"])
        parts = {part: parts[part] for part in PARTS if part in parts}

        def find() -> dict[str, Copies]:
            copies = look_for_copies(config, parts, progress)
            if "test" in parts:
                check_batch(parts, copies, progress)
            return copies

        summary = store_parts(config, parts, vocabulary, progress, find, has_copies=has_copies)
        if "test" in parts:
            test = summary["test"]
            texts = store_texts(config, "test", parts["test"], test.digest, progress)
            summary["test"] = replace(test, texts=texts)
            warn_of_unseen(config, CorpusStore.open(test.path), progress)
        return summary
