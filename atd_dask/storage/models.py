"""The null model as a store.

shared              the shared probability of each word (β₀)
vocabulary          the words
words/indptr        for each word, where its topic-specific probabilities begin
words/topics        the topics that give the word a probability of their own (u = 1)
words/probabilities these probabilities (β)
about               JSON: how the number of topics was selected, the settings, the training corpus
manifest.json       what was written
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np

from atd_dask.json_records import JsonObject
from atd_dask.kernels.model import WordTable
from atd_dask.kernels.training import OrderRecord
from atd_dask.kernels.word_ranking import rank_words
from atd_dask.kernels.word_switches import complete_table
from atd_dask.storage.groups import TEXT, GroupWriter, SealedGroup

KIND = "model"
VERSION = 1
FORMAT = f"atd-dask-{KIND}/{VERSION}"

CHUNK = 2**17


@dataclass(frozen=True)
class NullModel:
    """A trained model with its words and its history."""

    table: WordTable
    vocabulary: tuple[str, ...]
    restarts: tuple[tuple[OrderRecord, ...], ...]  # the orders that each restart tried
    settings: JsonObject  # those it was trained with
    corpus: str  # digest of the corpus store

    @cached_property
    def record(self) -> OrderRecord:
        """The order that was chosen: the first with the least BIC."""
        return min((r for search in self.restarts for r in search), key=lambda record: record.bic)

    def top_words(self, topic: int, n: int) -> list[str]:
        """Return the words that a topic makes more likely, most telling first."""
        table = self.table
        owners = np.repeat(np.arange(table.n_words), np.diff(table.indptr))
        mine = (table.topics == topic) & (table.excess > 0)
        probabilities = np.zeros(table.n_words)
        probabilities[owners[mine]] = table.probabilities[mine]
        order = rank_words(owners[mine], probabilities, table.shared)
        return [self.vocabulary[word] for word in order[:n].tolist()]


def write_model(url: str | os.PathLike[str], model: NullModel) -> str:
    """Write a model store, and return its digest."""
    about = {
        "restarts": [[asdict(record) for record in search] for search in model.restarts],
        "settings": model.settings,
        "corpus": model.corpus,
    }
    with GroupWriter(url, FORMAT) as group:
        group.group("", {})
        group.group("words", {})
        for path, values in (
            ("shared", model.table.shared),
            ("vocabulary", np.array(model.vocabulary, dtype=TEXT)),
            ("words/indptr", model.table.indptr),
            ("words/topics", model.table.topics),
            ("words/probabilities", model.table.probabilities),
        ):
            group.stream(path, values.dtype, CHUNK).append(values)
        group.put("about", np.array(json.dumps(about, sort_keys=True), dtype=TEXT))
        group.seal(
            {
                "topics": model.table.n_topics,
                "words": model.table.n_words,
                "specific": len(model.table.topics),
            }
        )
    return read_digest(url)


def read_digest(url: str | os.PathLike[str]) -> str:
    return SealedGroup.open(url, KIND, VERSION).manifest.digest


def read_model(url: str | os.PathLike[str]) -> NullModel:
    """Read a model, checking every byte."""
    group = SealedGroup.open(url, KIND, VERSION)
    about = json.loads(str(group.read("about")))
    table = complete_table(
        group.manifest.counts["topics"],
        group.read("shared"),
        group.read("words/indptr"),
        group.read("words/topics"),
        group.read("words/probabilities"),
    )
    return NullModel(
        table,
        tuple(group.read("vocabulary").tolist()),
        tuple(tuple(OrderRecord(**r) for r in search) for search in about["restarts"]),
        about["settings"],
        about["corpus"],
    )
