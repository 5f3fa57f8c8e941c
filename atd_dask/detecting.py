"""`detect`: clusters of a batch that do not belong, given a fitted null model."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from atd_dask.config.loader import make_detection
from atd_dask.config.rules import make_rules
from atd_dask.distribution.detection import detect as detect_clusters
from atd_dask.distribution.engine.clients import check_client
from atd_dask.errors import InputError
from atd_dask.estimators.base import check_whole
from atd_dask.estimators.corpora import as_corpus
from atd_dask.estimators.topic_model import ParsimoniousTopicModel
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
    """The result of `detect`.

    Attributes
    ----------
    candidates : tuple of FoundCluster
        The significant clusters in order, followed by the other candidates, best supported first.
    clusters : tuple of FoundCluster
        The significant clusters.
    null_model : NullModel
        The model of normal documents.
    test : Corpus
        The batch.

    Examples
    --------
    See `detect`.
    """

    candidates: tuple[FoundCluster, ...]
    null_model: NullModel
    test: Corpus

    def __repr__(self) -> str:
        found = f"{len(self.clusters)} of {len(self.candidates)} candidates significant"
        return f"<Detection: {found}, in {self.test.n_docs:,} documents>"

    @property
    def clusters(self) -> tuple[FoundCluster, ...]:
        """The significant clusters."""
        return tuple(cluster for cluster in self.candidates if cluster.significant)

    def describe(self) -> tuple[ClusterResult, ...]:
        """Describe the candidates as `result.json` does: documents, words and figures."""
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
        """Return the words that the topic of a cluster makes more likely, most telling first.

        Parameters
        ----------
        cluster
            One of `candidates`.
        n
            The largest number of words.

        Returns
        -------
        list of str
        """
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
    """Find the clusters of a batch that a null model does not explain.

    Parameters
    ----------
    null_model
        A fitted model, or the path of a saved one.
    test
        The batch. Documents are passed as for `ParsimoniousTopicModel.fit`.
    validation
        Normal documents that the model was not fitted on. Bootstrap documents are drawn from them.
    train
        The documents that the model was fitted on. With them, the search is repeated in held-out
        documents. Without them, the bootstrap alone decides.
    random_state
        The seed. The same arguments give the same clusters, byte for byte, with or without a
        client.
    client
        A Dask client whose cluster does the work.
    **settings
        The keys of `detection` in a configuration, with `membership` and `significance` as
        mappings; `rules="paper"` follows the paper.

    Returns
    -------
    Detection

    Raises
    ------
    UserError
        If the documents or a setting cannot be used: a subclass says which.

    Examples
    --------
    Three topics are normal; the last 15 documents of the batch are half about a fourth:

    >>> import numpy as np
    >>> from atd_dask import ParsimoniousTopicModel, detect
    >>> rng = np.random.default_rng(8)
    >>> topics = 0.8 * rng.dirichlet(np.full(120, 0.05), 4) + 0.2 / 120
    >>> def draw(n_docs, n_unusual=0):
    ...     mixtures = topics[np.arange(n_docs) % 3]
    ...     mixtures[n_docs - n_unusual :] += topics[3]
    ...     return rng.multinomial(60, mixtures / mixtures.sum(axis=1, keepdims=True))
    >>> train, validation, test = draw(240), draw(90), draw(65, n_unusual=15)
    >>> model = ParsimoniousTopicModel(3).fit(train)
    >>> found = detect(model, test, validation)
    >>> [cluster] = found.clusters
    >>> sorted(map(int, cluster.documents)) == list(range(50, 65))
    True
    """
    check_client(client)
    random_state = check_whole("random_state", random_state, 0)
    model = null_model
    if not isinstance(model, ParsimoniousTopicModel | str | os.PathLike):
        raise InputError(
            "null_model must be a ParsimoniousTopicModel or the path of a saved one, got"
            f" {type(model).__name__}"
        )
    if not isinstance(model, ParsimoniousTopicModel):
        model = ParsimoniousTopicModel.load(model)
    config = make_detection(settings)
    if config.repeats > 1:
        raise InputError(
            f"repeats must be 1 for detect, which has one null model, got {config.repeats}: find"
            " and the command train a model for each repeat"
        )
    words = model.vocabulary_
    corpora = {"validation": as_corpus(validation, words)[0]}
    if train is not None:
        corpora["train"] = as_corpus(train, words)[0]
    elif config.pool == "train":
        raise InputError("train must be given if pool is 'train', got None")
    else:
        significance = replace(config.significance, searches=0)
        config = replace(config, significance=significance)
    batch, _ = as_corpus(test, words)
    rules = make_rules(config, authors=model.compatibility == "authors")
    found = detect_clusters(model.model_.table, batch, corpora, rules, random_state, client)
    return Detection(tuple(order_candidates(found)), model.model_, batch)
