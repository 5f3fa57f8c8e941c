"""LB: how unlikely a document of its length is under the null model of ATD."""

from __future__ import annotations

import numpy as np

from atd_dask.kernels.fitting import fit_block
from atd_dask.kernels.model import Block, Floats, WordTable


def score_documents(test: Block, table: WordTable) -> Floats:
    """Return the negative log-likelihood per word, 0 for documents without known words."""
    fit = fit_block(test, table)
    scores: Floats = -fit.log_likelihoods / np.maximum(fit.lengths, 1)
    return scores
