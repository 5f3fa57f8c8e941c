"""NN: the distance to the K-th nearest training document, and its p-value (Zhao and Saligrama)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from atd_dask.kernels.model import Floats

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


@dataclass(frozen=True)
class Distances:
    """For each K, of the test documents: the distance R_K, and the share of training documents
    whose own is larger. The larger the distance, the smaller the p-value; distances also tell
    apart documents of the same p-value."""

    distances: Floats  # K × documents
    p_values: Floats  # K × documents


def compare_distances(
    train: csr_matrix | Floats, test: csr_matrix | Floats, numbers: Sequence[int]
) -> Distances:
    """Return distance is one minus the cosine. A training document is no neighbour of its own;
    where there are fewer than K others, the farthest counts."""
    from sklearn.neighbors import NearestNeighbors

    most = min(max(numbers), train.shape[0] - 1)
    search = NearestNeighbors(n_neighbors=most, metric="cosine", algorithm="brute", n_jobs=1)
    search.fit(train)
    own = _sort(search.kneighbors()[0])
    far = _sort(search.kneighbors(test)[0])
    places = [min(number, most) - 1 for number in numbers]
    distances = np.array([far[:, index] for index in places])
    p_values = np.array([rank(far[:, index], own[:, index]) for index in places])
    return Distances(distances, p_values)


def _sort(distances: Any) -> Floats:
    """Return nearest first, and none below 0 by rounding."""
    return np.sort(np.maximum(distances, 0.0), axis=1)


def rank(values: Floats, others: Floats) -> Floats:
    """Return the share of the others that are larger than each value."""
    ordered = np.sort(others)
    larger = len(ordered) - np.searchsorted(ordered, values, side="right")
    return larger / max(len(ordered), 1)
