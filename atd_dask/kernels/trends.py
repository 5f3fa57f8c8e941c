"""Whether words came into use gradually or all at once.

For each sweep: how many documents have the words, how many documents there are of the topic that
may take them up, and how many would have the words by what is usual. Growth is a share of the
topic's documents that rises over a week or more and stays; a burst is a share that is there from
one sweep to the next, and perhaps gone again.
"""

from __future__ import annotations

import numpy as np

from atd_dask.kernels.model import Floats

# Sweeps in which growth takes up its share.
RAMPS = (7, 14, 28)

# What is usual is never nothing.
LEAST_USUAL = 1e-3


def weigh_growth(counts: Floats, of_topic: Floats, usual: Floats) -> float:
    """The log-likelihood of the best growth minus that of the best burst.

    Growth has to begin small, as it cannot take up more than all documents of the topic: so a group
    that is there at once speaks for a burst even when there is nothing to compare it with.
    """
    n = len(counts)
    age = np.arange(n)
    growths = [
        np.clip((age - onset + 1) / ramp, 0.0, 1.0)
        for ramp in RAMPS
        for onset in range(1 - ramp, n)
    ]
    bursts = [
        ((age >= start) & (age < stop)).astype(np.float64)
        for start in range(n)
        for stop in range(start + 1, n + 1)
    ]
    best_growth, best_burst = (
        max(_fit(counts, of_topic * shape, usual) for shape in shapes)
        for shapes in (growths, bursts)
    )
    return best_growth - best_burst


def _fit(counts: Floats, exposed: Floats, usual: Floats) -> float:
    """The log-likelihood of Poisson counts, with the share of those exposed that fits their sum."""
    usual = np.maximum(usual, LEAST_USUAL)
    inside = exposed > 0.0
    surplus = float((counts - usual)[inside].sum())
    share = min(max(surplus / float(exposed.sum()), 0.0), 1.0) if inside.any() else 0.0
    expected = usual + share * exposed
    return float((counts * np.log(expected) - expected).sum())
