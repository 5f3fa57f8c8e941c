"""The equations of the methods that ATD is compared with, as slow, obvious loops."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import digamma

from tests.naive import cosine


def mean_field_topics(document, beta, prior, gamma, steps):
    """M4, q(z) and q(θ) of one document by turns; beta is words × topics. Gives γ, and the counts
    of words under topics that the last γ implies."""
    n_topics = len(prior)

    def responsibilities(word):
        strength = [math.exp(digamma(gamma[k])) * beta[word][k] for k in range(n_topics)]
        return [part / sum(strength) for part in strength]

    for _ in range(steps):
        new = list(prior)
        for word, count in enumerate(document):
            phi = responsibilities(word)
            for k in range(n_topics):
                new[k] += count * phi[k]
        gamma = new
    mass = [[count * part for part in responsibilities(w)] for w, count in enumerate(document)]
    return np.array(gamma), np.array(mass)


def expected_log_proportions(gamma):
    return [digamma(value) - digamma(sum(gamma)) for value in gamma]


def expected_log_dirichlet(gamma, alpha):
    """E[log Dir(θ; α)] where θ ~ Dir(γ)."""
    total = math.lgamma(sum(alpha)) - sum(math.lgamma(a) for a in alpha)
    logs = expected_log_proportions(gamma)
    return total + sum((a - 1) * log for a, log in zip(alpha, logs, strict=True))


def mean_field_genres(gammas, groups, n_groups, alpha, pi):
    """M4, q(y) of every group."""
    weights = []
    for g in range(n_groups):
        logs = []
        for t in range(len(pi)):
            mine = [gammas[d] for d in range(len(gammas)) if groups[d] == g]
            total = sum(expected_log_dirichlet(gamma, alpha[t]) for gamma in mine)
            logs.append(math.log(pi[t]) + total)
        parts = [math.exp(log - max(logs)) for log in logs]
        weights.append([part / sum(parts) for part in parts])
    return np.array(weights)


def mean_field_bound(counts, groups, gammas, genres, beta, alpha, pi):
    """M4, the lower bound of the log-likelihood, with q(z) at its best for the γ that are given."""
    total = 0.0
    for d, document in enumerate(counts):
        for t in range(len(pi)):
            total += genres[groups[d]][t] * expected_log_dirichlet(gammas[d], alpha[t])
        total -= expected_log_dirichlet(gammas[d], gammas[d])
        logs = expected_log_proportions(gammas[d])
        for word, count in enumerate(document):
            terms = [math.exp(log) * beta[word][k] for k, log in enumerate(logs)]
            total += count * math.log(sum(terms))
    for weights in genres:
        for t, weight in enumerate(weights):
            if weight > 0:
                total += weight * math.log(pi[t] / weight)
    return total


def batch_minus_training(batch, train, number):
    """For rows of length 1: the mean cosine to the nearest others of the batch minus that to three
    times as many of training."""
    scores = []
    for d, row in enumerate(batch):
        others = [float(row @ other) for e, other in enumerate(batch) if e != d]
        usual = [float(row @ other) for other in train]
        near = sorted(others, reverse=True)[:number]
        known = sorted(usual, reverse=True)[: 3 * number]
        scores.append(sum(near) / len(near) - sum(known) / len(known))
    return scores


def nearest_neighbour_p_value(document, train, number):
    """The share of training documents whose own K-th nearest neighbour is farther away."""

    def distance(vector, others):
        return sorted(1 - cosine(vector, other) for other in others)[number - 1]

    mine = distance(document, train)
    own = [distance(one, [o for m, o in enumerate(train) if m != n]) for n, one in enumerate(train)]
    return sum(mine < other for other in own) / len(train)
