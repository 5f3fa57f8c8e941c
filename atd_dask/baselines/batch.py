"""Methods that see the whole batch: what is frequent in it but rare in the training documents?

The others judge each document by itself. Like ATD, these see all documents of the batch at once, as
tf-idf vectors. They only rank; none of them says where to stop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from atd_dask.kernels.blocks import Corpus
from atd_dask.kernels.model import Floats, Ints

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

MORE_OF_TRAINING = 3  # neighbours in training per neighbour in the batch
ROWS_AT_ONCE = 512
FOLDS = 5
CLUSTER_STARTS = 10
HALF = 0.5  # a pseudocount per cluster, for the batch and for training

# The defaults of `rank_batch`: neighbours, C, clusters.
USUAL: dict[str, float] = {"neighbours": 20, "regression": 1.0, "clusters": 20}


@dataclass(frozen=True)
class Ranking:
    """Documents of the batch, most anomalous first, and groups in the same order if the method
    makes its own."""

    order: Ints
    groups: tuple[Ints, ...] = ()


def rank_batch(
    method: str, train: csr_matrix, batch: csr_matrix, seed: int, value: float | None = None
) -> Ranking:
    """Rank the batch by one of the methods of `USUAL`, from counts of words; `value` is its
    setting.

    The ranking is the same on every machine with the same versions of NumPy, SciPy and
    scikit-learn.
    """
    from threadpoolctl import threadpool_limits

    known, new = weigh_words(train, batch)
    value = USUAL[method] if value is None else value
    with threadpool_limits(1):
        if method == "neighbours":
            return Ranking(_sort(compare_neighbours(known, new, [int(value)])[0]))
        if method == "regression":
            return Ranking(_sort(tell_apart(known, new, value, seed)))
        found = find_clusters(known, new, int(value), seed)
    order = _sort(found.scores)
    ranked = np.argsort(-found.excess, kind="stable")
    return Ranking(order, tuple(order[found.groups[order] == group] for group in ranked))


def read_counts(corpus: Corpus) -> csr_matrix:
    """Return the counts of all documents of a corpus, documents × words."""
    from scipy.sparse import csr_matrix

    block = corpus.rows(0, corpus.n_docs)
    shape = (corpus.n_docs, corpus.n_words)
    return csr_matrix((block.counts, block.terms, block.indptr), shape=shape)


def weigh_words(train: csr_matrix, batch: csr_matrix) -> tuple[csr_matrix, csr_matrix]:
    """Convert counts to tf-idf: 1 + log of the count, with the document frequencies of both corpora
    together, normalised to unit length."""
    from scipy.sparse import vstack
    from sklearn.feature_extraction.text import TfidfTransformer

    both = TfidfTransformer(sublinear_tf=True).fit_transform(vstack([train, batch], format="csr"))
    return both[: train.shape[0]], both[train.shape[0] :]


def compare_neighbours(known: csr_matrix, new: csr_matrix, numbers: Sequence[int]) -> Floats:
    """Return a row for each k: the mean similarity of a document to its k nearest neighbours in the
    batch minus that to its 3k nearest in training, or to all if there are fewer."""
    n_docs = new.shape[0]
    scores = np.zeros((len(numbers), n_docs))
    for first in range(0, n_docs, ROWS_AT_ONCE):
        rows = slice(first, min(first + ROWS_AT_ONCE, n_docs))
        own = (new[rows] @ new.T).toarray()
        own[np.arange(len(own)), np.arange(rows.start, rows.stop)] = -np.inf  # itself
        near = _average_nearest(own, numbers, n_docs - 1)
        numbers_of_training = [MORE_OF_TRAINING * number for number in numbers]
        usual = (new[rows] @ known.T).toarray()
        scores[:, rows] = near - _average_nearest(usual, numbers_of_training, known.shape[0])
    return scores


def _average_nearest(similarities: Floats, numbers: Sequence[int], n_others: int) -> Floats:
    """Return the mean of the k largest values of each row, for each k in `numbers`."""
    if n_others == 0:
        return np.zeros((len(numbers), len(similarities)))
    most = min(max(numbers), n_others)
    largest = -np.sort(np.partition(-similarities, most - 1, axis=1)[:, :most], axis=1)
    sums = np.cumsum(largest, axis=1)
    return np.stack([sums[:, min(n, most) - 1] / min(n, most) for n in numbers])


def tell_apart(known: csr_matrix, new: csr_matrix, strength: float, seed: int) -> Floats:
    """Return the out-of-fold probability that a document belongs to the batch, by a logistic
    regression of batch against training with equal weights, in five folds. `strength` is C."""
    from scipy.sparse import vstack
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    n_folds = min(FOLDS, known.shape[0], new.shape[0])
    if n_folds < 2:
        return np.zeros(new.shape[0])
    is_new = np.repeat([0, 1], [known.shape[0], new.shape[0]])
    model = LogisticRegression(
        C=strength, class_weight="balanced", solver="liblinear", random_state=seed
    )
    probabilities = cross_val_predict(
        model,
        vstack([known, new], format="csr"),
        is_new,
        cv=StratifiedKFold(n_folds, shuffle=True, random_state=seed),
        method="predict_proba",
    )
    own: Floats = probabilities[known.shape[0] :, 1]
    return own


@dataclass(frozen=True)
class BatchClusters:
    """The clusters of a batch, and the excess of each in the batch over training."""

    groups: Ints  # documents: the cluster of each
    excess: Floats  # clusters: log of share in the batch / share in training
    scores: Floats  # documents: by the excess of their cluster, then by distance to its centre


def find_clusters(known: csr_matrix, new: csr_matrix, n_clusters: int, seed: int) -> BatchClusters:
    """Run KMeans on the batch, the best of ten starts; training documents go to the nearest
    centre."""
    from sklearn.cluster import KMeans

    n_clusters = min(n_clusters, _count_distinct(new))
    model = KMeans(n_clusters, n_init=CLUSTER_STARTS, random_state=seed).fit(new)
    groups: Ints = model.labels_.astype(np.int64)
    excess = _log_shares(groups, n_clusters) - _log_shares(model.predict(known), n_clusters)
    distances = model.transform(new)[np.arange(len(groups)), groups]
    place = np.empty(n_clusters)
    place[np.argsort(-excess, kind="stable")] = np.arange(n_clusters)
    order = np.lexsort((distances, place[groups]))
    scores = np.empty(len(groups))
    scores[order] = np.arange(len(groups), 0, -1)
    return BatchClusters(groups, excess, scores)


def _log_shares(groups: Any, n_groups: int) -> Floats:
    counts = np.bincount(groups, minlength=n_groups) + HALF
    shares: Floats = np.log(counts / counts.sum())
    return shares


def _count_distinct(documents: csr_matrix) -> int:
    """Count distinct documents: KMeans cannot have more clusters."""
    bounds = documents.indptr[1:-1]
    rows = zip(np.split(documents.indices, bounds), np.split(documents.data, bounds), strict=True)
    return len({(terms.tobytes(), weights.tobytes()) for terms, weights in rows})


def _sort(scores: Floats) -> Ints:
    """Return the rows by descending score, ties in order."""
    return np.argsort(-scores, kind="stable")
