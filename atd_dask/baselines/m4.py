"""M4, the mixture of multinomial mixture models: groups of documents, each with one of a few
genres.

The groups are given. Variational EM learns the word probabilities β, the genre proportions π and
the Dirichlet parameters α of each genre from groups of training documents. The score of a test
document is the entropy of the approximate posterior of its topic proportions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from atd_dask.kernels.genres import infer_genres, infer_topics, sum_log_proportions
from atd_dask.kernels.model import Floats, Ints, Rows
from atd_dask.kernels.streams import open_stream

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

ITERATIONS = 25  # of EM
TEST_ITERATIONS = 10
STEPS = 20  # for φ and γ of one document
TOLERANCE = 1e-3
ALPHA_STEPS = 20
START_COUNT = 0.1  # of every word in every topic
LEAST_COUNT = 1e-6  # the same during EM
LEAST_SHARE = 1e-10  # of a genre
LEAST_ALPHA = 1e-4


@dataclass(frozen=True)
class GenreModel:
    """The parameters of M4."""

    beta: Floats  # words × topics
    pi: Floats  # genres
    alpha: Floats  # genres × topics


@dataclass(frozen=True)
class Posterior:
    """The posterior of documents and their groups."""

    gamma: Floats  # documents × topics
    genres: Floats  # groups × genres
    mass: Floats  # words × topics: expected counts


def learn(train: csr_matrix, groups: Ints, n_topics: int, n_genres: int, seed: int) -> GenreModel:
    """Fit the model to training documents in `n_topics` groups. Topics start from the words of the
    groups, genres from random weights."""
    model, posterior = start(train, groups, n_topics, n_genres, seed)
    for _ in range(ITERATIONS):
        posterior = infer(model, train, groups, posterior)
        model = update(model, posterior, groups)
    return model


def start(
    train: csr_matrix, groups: Ints, n_topics: int, n_genres: int, seed: int
) -> tuple[GenreModel, Posterior]:
    words = np.full((train.shape[1], n_topics), START_COUNT)
    for group in range(n_topics):
        words[:, group] += np.asarray(train[groups == group].sum(axis=0)).ravel()
    weights = open_stream(seed, f"m4/{n_topics}/{n_genres}").dirichlet(np.ones(n_genres), n_topics)
    alpha = np.ones((n_genres, n_topics))
    model = GenreModel(words / words.sum(axis=0), weights.mean(axis=0), alpha)
    return model, _init_posterior(model, train, weights)


def score_documents(model: GenreModel, test: csr_matrix, groups: Ints) -> Floats:
    """Return the entropy −E[log q(θ_d)] of each test document; `groups` are those of the batch."""
    weights = np.tile(model.pi, (int(groups.max(initial=0)) + 1, 1))
    posterior = _init_posterior(model, test, weights)
    for _ in range(TEST_ITERATIONS):
        posterior = infer(model, test, groups, posterior)
    return measure_entropy(posterior.gamma)


def _init_posterior(model: GenreModel, documents: csr_matrix, genres: Floats) -> Posterior:
    """Initialise inference: every topic has an equal share of a document's words."""
    n_topics = model.beta.shape[1]
    lengths = np.asarray(documents.sum(axis=1), dtype=np.float64)
    return Posterior(np.tile(1.0 + lengths / n_topics, n_topics), genres, np.zeros((0, n_topics)))


def infer(
    model: GenreModel, documents: csr_matrix, groups: Ints, posterior: Posterior
) -> Posterior:
    """Run an E-step: the topics of documents given the genres, then the genres given the topics."""
    prior = (posterior.genres @ model.alpha)[groups]
    gamma, mass = posterior.gamma.copy(), np.zeros_like(model.beta)
    rows = Rows(documents.indptr.astype(np.int64), documents.indices, documents.data)
    infer_topics(rows, model.beta, prior, gamma, mass, STEPS, TOLERANCE)
    n_groups = len(posterior.genres)
    sums = sum_log_proportions(gamma, groups, n_groups)
    sizes = np.bincount(groups, minlength=n_groups)
    return Posterior(gamma, infer_genres(sums, sizes, model.alpha, model.pi), mass)


def update(model: GenreModel, posterior: Posterior, groups: Ints) -> GenreModel:
    """Run an M-step."""
    n_groups = len(posterior.genres)
    beta = posterior.mass + LEAST_COUNT
    pi = np.maximum(posterior.genres.mean(axis=0), LEAST_SHARE)
    sums = sum_log_proportions(posterior.gamma, groups, n_groups)
    sizes = np.bincount(groups, minlength=n_groups)
    n_docs = posterior.genres.T @ sizes
    # A genre without documents keeps its parameters.
    used = n_docs > 1e-6
    means = (posterior.genres.T @ sums)[used] / n_docs[used, None]
    alpha = model.alpha.copy()
    alpha[used] = fit_dirichlet(alpha[used], means)
    return replace(model, beta=beta / beta.sum(axis=0), pi=pi / pi.sum(), alpha=alpha)


def fit_dirichlet(alpha: Floats, means: Floats) -> Floats:
    """Iterate from `alpha` towards the parameters for which E[log θ] is `means`, row by row.

    Each step of the fixed-point iteration ψ(α_k) = ψ(Σα) + means_k raises the likelihood.
    """
    from scipy.special import digamma

    for _ in range(ALPHA_STEPS):
        target = digamma(alpha.sum(axis=1, keepdims=True)) + means
        alpha = np.maximum(_invert_digamma(target), LEAST_ALPHA)
    return alpha


def _invert_digamma(y: Floats) -> Floats:
    """Invert ψ by Newton's method; five steps from this start give full precision."""
    from scipy.special import digamma, polygamma

    x: Floats = np.where(y >= -2.22, np.exp(np.minimum(y, 700.0)) + 0.5, -1.0 / (y - digamma(1.0)))
    for _ in range(5):
        x = x - (digamma(x) - y) / polygamma(1, x)
    return x


def measure_entropy(gamma: Floats) -> Floats:
    """Return the entropy of a Dirichlet distribution for each row."""
    from scipy.special import digamma, gammaln

    total = gamma.sum(axis=1)
    entropy: Floats = (
        gammaln(gamma).sum(axis=1)
        - gammaln(total)
        + (total - gamma.shape[1]) * digamma(total)
        - ((gamma - 1.0) * digamma(gamma)).sum(axis=1)
    )
    return entropy
