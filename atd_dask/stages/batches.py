"""Prepares a batch for the search, with a model that knows its words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from atd_dask.distribution.engine.runner import Runner
from atd_dask.distribution.newwords import admit_new_words
from atd_dask.kernels.blocks import Corpus
from atd_dask.kernels.detection_rules import DetectionRules
from atd_dask.kernels.model import WordTable
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.models import NullModel
from atd_dask.storage.representatives import with_all_words


@dataclass(frozen=True)
class PreparedBatch:
    """A batch ready to be searched: without near-duplicates, and with its new words if used."""

    documents: Corpus
    table: WordTable
    vocabulary: tuple[str, ...]


def open_batch(
    runner: Runner, stores: Mapping[str, CorpusStore], model: NullModel, rules: DetectionRules
) -> PreparedBatch:
    """Open the test store, with a model that knows its words."""
    test, train = stores["test"], stores["train"]
    if not rules.unseen:
        return PreparedBatch(test.without_copies(), model.table, model.vocabulary)
    # A word in too few training documents for the vocabulary is not new either.
    everything = with_all_words(test, train.unseen_words)
    documents = everything.without_copies()
    table = admit_new_words(runner, model.table, documents, train.without_copies())
    return PreparedBatch(documents, table, everything.vocabulary)
