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
    """The distance R_K of the test documents for each K, and the share of training documents whose
    distance is larger, which is the p-value. Distances also break ties between p-values."""

    distances: Floats  # K × documents
    p_values: Floats  # K × documents


def compare_distances(
    train: csr_matrix | Floats, test: csr_matrix | Floats, numbers: Sequence[int]
) -> Distances:
    """Compare cosine distances to the K-th nearest training document. A training document is not
    its own neighbour; with fewer than K others, the farthest counts."""
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
    """Sort distances in ascending order, and clip rounding errors below 0."""
    return np.sort(np.maximum(distances, 0.0), axis=1)


def rank(values: Floats, others: Floats) -> Floats:
    """Return the share of the others that exceed each value."""
    ordered = np.sort(others)
    larger = len(ordered) - np.searchsorted(ordered, values, side="right")
    return larger / max(len(ordered), 1)
