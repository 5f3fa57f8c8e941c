"""Excess: whether documents of a kind are more frequent in a batch than among normal ones."""

from __future__ import annotations

import math

from atd_dask.kernels.jit import kernel

# So many of the normal documents are of every kind, beside those that were seen: of what nobody has
# seen yet, little is no surprise.
UNSEEN = 0.5


@kernel
def measure_excess(n_found, n_batch, n_usual, n_normal):
    """Twice the log-likelihood ratio for a kind of documents that is more frequent in the batch, to
    one that is as frequent everywhere; 0 where it is not. Numbers may be parts of a document."""
    usual = n_usual + UNSEEN
    share = n_batch / (n_batch + n_normal)
    total = n_found + usual
    if n_found <= share * total:
        return 0.0
    found = n_found * math.log(n_found / (share * total))
    return 2.0 * (found + usual * math.log(usual / ((1.0 - share) * total)))
