"""Ranks the words of a topic by how telling they are."""

from __future__ import annotations

import math

import numpy as np

from atd_dask.kernels.jit import kernel
from atd_dask.kernels.model import Floats, Ints


@kernel
def measure_telling(probabilities, shared):
    """Return the contribution of each word to the divergence of a topic from the shared model,
    which is negative for words that are less likely than usual."""
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
    """Rank words of a topic: first those that are more likely than usual, then those that are less
    likely, each in descending order of how telling they are; ties in order."""
    telling = measure_telling(probabilities[words], shared[words])
    return words[np.lexsort((words, -np.abs(telling), telling < 0.0))]
