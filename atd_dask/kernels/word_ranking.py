"""Which words tell most of a topic."""

from __future__ import annotations

import math

import numpy as np

from atd_dask.kernels.jit import kernel
from atd_dask.kernels.model import Floats, Ints


@kernel
def measure_telling(probabilities, shared):
    """What each word contributes to the divergence of a topic's probabilities from the shared
    ones; negative for a word that is less likely than usual."""
    telling = np.zeros(len(probabilities))
    for word in range(len(telling)):
        own, usual = probabilities[word], shared[word]
        if own > 0.0 and usual > 0.0:
            telling[word] = own * math.log(own / usual) - own + usual
        else:
            telling[word] = own + usual
        if own < usual:
            telling[word] = -telling[word]
    return telling


def rank_words(words: Ints, probabilities: Floats, shared: Floats) -> Ints:
    """Return words of a topic: first those that are more likely than usual, then those that are
    less, each from the one that tells most on; of equals the first."""
    telling = measure_telling(probabilities[words], shared[words])
    return words[np.lexsort((words, -np.abs(telling), telling < 0.0))]
