"""Tells whether words came into use gradually or all at once.

For each sweep there are the number of documents with the words, the number of documents on the
topic that may take them up, and the usual number of documents with the words. Growth is a share of
the topic's documents that rises over a week or more and stays. A burst is a share that is there
from one sweep to the next, and may vanish again.
"""

from __future__ import annotations

import math

import numpy as np

from atd_dask.kernels.model import Floats

# Sweeps over which growth reaches its share.
RAMPS = (7, 14, 28)

# The usual number is never 0.
LEAST_USUAL = 1e-3

# Nor is the expected number of documents on a topic.
LEAST_EXPECTED = 0.5


def weigh_growth(counts: Floats, of_topic: Floats, usual: Floats) -> float:
    """Return the log-likelihood of the best growth minus that of the best burst.

    Growth must start small, because it is limited to the documents on the topic. So a group that is
    there at once is evidence of a burst, even with nothing to compare it with.
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


def weigh_replacement(n_group: int, n_topic: int, expected: float) -> float:
    """Return the log odds that the documents of a group came instead of others on their topic,
    against that they came in addition to them.

    `n_topic` documents are on the topic, the group included, and `expected` usually are; counts
    follow Poisson's law.
    """
    return n_group - n_topic * math.log1p(n_group / max(expected, LEAST_EXPECTED))


def _fit(counts: Floats, exposed: Floats, usual: Floats) -> float:
    """Return the log-likelihood of Poisson counts, with the share of the exposed documents that
    fits their sum."""
    usual = np.maximum(usual, LEAST_USUAL)
    inside = exposed > 0.0
    surplus = float((counts - usual)[inside].sum())
    share = min(max(surplus / float(exposed.sum()), 0.0), 1.0) if inside.any() else 0.0
    expected = usual + share * exposed
    return float((counts * np.log(expected) - expected).sum())
