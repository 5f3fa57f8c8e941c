"""Excess: how much more frequent a kind of document is in a batch than among normal documents."""

from __future__ import annotations

import math

from atd_dask.kernels.jit import kernel

# A pseudocount: this many normal documents of every kind are added to those seen, so that a few
# documents of a kind that was never seen are not yet a surprise.
PSEUDOCOUNT = 0.5


@kernel
def measure_excess(n_found, n_batch, n_usual, n_normal):
    """Return twice the log-likelihood ratio of "more frequent in the batch" against "equally
    frequent everywhere", or 0 if the kind is not more frequent. Counts may be fractional."""
    usual = n_usual + PSEUDOCOUNT
    share = n_batch / (n_batch + n_normal)
    total = n_found + usual
    if n_found <= share * total:
        return 0.0
    found = n_found * math.log(n_found / (share * total))
    return 2.0 * (found + usual * math.log(usual / ((1.0 - share) * total)))
