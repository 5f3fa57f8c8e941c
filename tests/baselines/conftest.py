from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture(scope="module")
def documents():
    """Documents of two subjects, and two odd ones at the end."""
    rng = np.random.default_rng(1)
    counts = np.zeros((42, 20), np.int64)
    for d in range(42):
        first = 14 if d >= 40 else 7 * (d % 2)
        counts[d] = rng.multinomial(30, np.bincount(first + np.arange(6), minlength=20) / 6)
    return counts
