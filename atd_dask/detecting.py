"""Detection from Python: the clusters of a batch that do not belong, and what they are about."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from atd_dask.config.loader import make_detection
from atd_dask.config.rules import make_rules
from atd_dask.distribution.detection import detect as detect_clusters
from atd_dask.errors import InputError
from atd_dask.estimators.topic_model import ParsimoniousTopicModel, as_corpus
from atd_dask.evaluation.results import describe_clusters, order_candidates
from atd_dask.kernels.detection_rules import FoundCluster
from atd_dask.result_types import ClusterResult
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.models import NullModel

if TYPE_CHECKING:
    from atd_dask.distribution.engine.clients import Client
    from atd_dask.kernels.blocks import Corpus


@dataclass(frozen=True)
class Detection:
    """What was found: the clusters in their order, and after them the candidates that are not
    significant, the best supported first."""

    candidates: tuple[FoundCluster, ...]
    null_model: NullModel
    test: Corpus

    @property
    def clusters(self) -> tuple[FoundCluster, ...]:
        """The significant ones."""
        return tuple(cluster for cluster in self.candidates if cluster.significant)

    def describe(self) -> tuple[ClusterResult, ...]:
        """The candidates as a result has them: documents, words, figures."""
        n_docs = self.test.n_docs
        ids, labels = [str(row) for row in range(n_docs)], [()] * n_docs
        if isinstance(self.test, CorpusStore):
            ids, labels = self.test.ids(), self.test.labels()  # type: ignore[assignment]
        return describe_clusters(
            self.candidates,
            self.test,
            self.null_model.table.shared,
            self.null_model.vocabulary,
            ids,
            labels,
        )

    def top_words(self, cluster: FoundCluster, n: int = 10) -> list[str]:
        """The words that a cluster's topic makes more likely, the most telling first."""
        words = cluster.topic.raised_words(self.null_model.table.shared)[:n]
        return [self.null_model.vocabulary[word] for word in words.tolist()]


def detect(
    null_model: ParsimoniousTopicModel | str | os.PathLike[str],
    test: Any,
    validation: Any,
    train: Any = None,
    *,
    random_state: int = 1,
    client: Client | None = None,
    **settings: Any,
) -> Detection:
    """Looks for clusters in the documents `test`.

    `null_model` is a fitted model or the path of one. Documents are given as for
    `ParsimoniousTopicModel.fit`. Bootstrap documents are drawn from `validation`, normal documents
    that the model was not fitted on. With `train`, those that it was fitted on, the search is
    repeated in held-out documents; without, a cluster is judged by the bootstrap alone.

    `settings` are those of `detection` in a configuration, `membership` and `significance` as
    mappings; `rules="paper"` takes the paper's. The same arguments give the same clusters, byte for
    byte, with a Dask client or without.
    """
    model = null_model
    if not isinstance(model, ParsimoniousTopicModel):
        model = ParsimoniousTopicModel.load(model)
    config = make_detection(settings)
    if config.repeats > 1:
        raise InputError(
            f"repeats must be 1 for detect, which has one null model, got {config.repeats}: find"
            " and the command train one for each repeat"
        )
    words = model.vocabulary_
    corpora = {"validation": as_corpus(validation, words)[0]}
    if train is not None:
        corpora["train"] = as_corpus(train, words)[0]
    elif config.pool == "train":
        raise InputError("train must be given where pool is 'train', got None")
    else:
        significance = replace(config.significance, searches=0)
        config = replace(config, significance=significance)
    batch, _ = as_corpus(test, words)
    rules = make_rules(config, authors=model.compatibility == "authors")
    found = detect_clusters(model.model_.table, batch, corpora, rules, random_state, client)
    return Detection(tuple(order_candidates(found)), model.model_, batch)
