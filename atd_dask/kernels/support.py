"""Support: how many documents bear out the topic of a cluster that others taught.

The documents of a cluster are cut into folds. Each fold is asked by a topic that was learned on the
others, smoothed for documents it has not seen: how much lower is the document's part of the BIC
with the topic on? What a document says is capped, so that no single one decides. From the sum is
taken what as many normal documents as the batch has would say: a topic that normal documents have
as well is no anomaly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from atd_dask.kernels.alternative import Alternative
from atd_dask.kernels.fitting import FREE, document_cost, fit_document, start_from
from atd_dask.kernels.jit import kernel
from atd_dask.kernels.model import Floats
from atd_dask.kernels.passes import add_up
from atd_dask.kernels.workspaces import (
    fill_columns,
    load_document,
    longest_document,
    make_workspace,
)

if TYPE_CHECKING:
    from atd_dask.kernels.fitters import Fitter
    from atd_dask.kernels.growth import Batch, Sample

FOLDS = 5

# Nats that one document can say for a topic, or against it.
CAP = 10.0


@kernel
def document_gains(context, extra, indptr, terms, counts, null):
    """For each document how much lower its part of the BIC is with the new topic on than `null`,
    without."""
    table = context.table
    new = table.n_topics
    work = make_workspace(new + 1, longest_document(indptr))
    slope = np.full(new + 1, FREE if context.lda else 0.0)
    anchors = np.full(new + 1, -1)
    gains = np.zeros(len(indptr) - 1)
    for d in range(len(gains)):
        first = indptr[d]
        last = indptr[d + 1]
        n, length = load_document(table, terms[first:last], counts[first:last], work)
        if n == 0:
            continue
        fill_columns(table, extra, work, n)
        m = start_from(work, new)
        anchors[new] = d
        m, likelihood = fit_document(table, slope, anchors, d, work, m, n, length)
        gains[d] = null[d] + likelihood - document_cost(work, slope, m, length)
    return gains


def cross_fit_gains(fitter: Fitter, cluster: Sample) -> Floats:
    """What each document of a cluster gains by a topic that it did not teach.

    Folds go by the order of the documents, one after the other; a document by itself gains nothing.
    """
    n_docs = len(cluster.block)
    gains = np.zeros(n_docs)
    n_folds = min(FOLDS, n_docs)
    if n_folds < 2:
        return gains
    folds = np.arange(n_docs) % n_folds
    for fold in range(n_folds):
        teaching = cluster.take(np.flatnonzero(folds != fold))
        asked = np.flatnonzero(folds == fold)
        topic = fitter.train(teaching.block).meet_others(teaching.fit.lengths)
        gains[asked] = fitter.gains(topic, cluster.take(asked))
    return gains


def add_capped(gains: Floats) -> float:
    """The sum of what documents say, none more than `CAP`."""
    return float(add_up(np.minimum(np.maximum(gains, -CAP), CAP)))


@dataclass(frozen=True)
class NormalDocuments:
    """Normal documents that a topic of the batch is held against, fitted to the null model."""

    batch: Batch

    def support(self, topic: Alternative, least: float, n_docs: int) -> float:
        """What `n_docs` normal documents would add to the support of a cluster that documents
        belong to if they gain more than `least`."""
        n_normal = len(self.batch)
        if n_normal == 0:
            return 0.0
        everyone = np.ones(n_normal, dtype=np.bool_)
        gains = self.batch.gains_above(topic, everyone, least)
        return add_capped(gains[gains > least]) * n_docs / n_normal
