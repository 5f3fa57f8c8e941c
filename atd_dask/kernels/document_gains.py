"""The gains of documents from a topic: how much it lowers their part of the BIC."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from atd_dask.kernels.fitting import FREE, document_cost, fit_document, start_from
from atd_dask.kernels.jit import kernel
from atd_dask.kernels.model import Floats
from atd_dask.kernels.workspaces import (
    fill_columns,
    load_document,
    longest_document,
    make_workspace,
)

if TYPE_CHECKING:
    from atd_dask.kernels.fitters import Fitter
    from atd_dask.kernels.next_document import Sample

FOLDS = 5


@kernel
def document_gains(context, extra, indptr, terms, counts, null):
    """Return how much lower each document's part of the BIC is with the new topic on than
    `null`."""
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
    """Return the gain of each document of a cluster from a topic learned without it.

    Documents are dealt to the folds in order. A single document gains nothing.
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
        topic = fitter.train(teaching.block).smoothed(fitter.context)
        gains[asked] = fitter.gains(topic, cluster.take(asked))
    return gains
