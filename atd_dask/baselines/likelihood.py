"""LB: how unlikely a document is under the null model of ATD, for its length."""

from __future__ import annotations

import numpy as np

from atd_dask.kernels.fitting import fit_block
from atd_dask.kernels.model import Block, Floats, WordTable


def score_documents(test: Block, table: WordTable) -> Floats:
    """Return minus the log-likelihood per word; a document without a word that the model knows has
    none to be unlikely."""
    fit = fit_block(test, table)
    scores: Floats = -fit.log_likelihoods / np.maximum(fit.lengths, 1)
    return scores
