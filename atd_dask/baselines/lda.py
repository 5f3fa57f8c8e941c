"""Latent Dirichlet allocation: topic proportions as features, and groups of documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from atd_dask.kernels.model import Floats, Ints

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

TRAIN_ITERATIONS = 10
GROUP_ITERATIONS = 30


def learn_proportions(
    train: csr_matrix, test: csr_matrix, n_topics: int, seed: int
) -> tuple[Floats, Floats]:
    """Fit a model to the training documents, and return the topic proportions of training and test
    documents."""
    model = _make(n_topics, seed, TRAIN_ITERATIONS)
    own: Floats = model.fit_transform(train)
    return own, model.transform(test)


def group_documents(documents: csr_matrix, n_groups: int, seed: int) -> Ints:
    """Return the group of each document: its largest topic in a model of these documents."""
    model = _make(n_groups, seed, GROUP_ITERATIONS)
    return choose_groups(model.fit_transform(documents))


def choose_groups(proportions: Floats) -> Ints:
    """Return the topic with the highest proportion in each document."""
    groups: Ints = proportions.argmax(axis=1)
    return groups


def _make(n_topics: int, seed: int, iterations: int) -> Any:
    from sklearn.decomposition import LatentDirichletAllocation

    return LatentDirichletAllocation(n_topics, max_iter=iterations, random_state=seed, n_jobs=1)
