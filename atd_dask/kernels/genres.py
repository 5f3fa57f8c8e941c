"""Mean-field inference in a mixture of multinomial mixtures, with groups of documents and genres.

A group g has a genre y with probability π; a document of the group has proportions θ ~ Dir(α_y); a
word comes from topic k with probability θ_k, and is w with probability β_kw. The posterior is
approximated by q(y_g) = λ_g, q(θ_d) = Dir(γ_d), and a distribution φ over topics for every word.
"""

from __future__ import annotations

import math

import numpy as np

from atd_dask.kernels.jit import inner_kernel, kernel

# d = documents, g = groups, t = genres, k = topics, w = words

_ASYMPTOTIC_FROM = 6.0


@inner_kernel
def digamma(x):
    """Return ψ(x) for x > 0, by recurrence up to where the asymptotic series is accurate."""
    below = 0.0
    while x < _ASYMPTOTIC_FROM:
        below += 1.0 / x
        x += 1.0
    z = 1.0 / (x * x)
    series = z * (
        1 / 12 - z * (1 / 120 - z * (1 / 252 - z * (1 / 240 - z * (1 / 132 - z * 691 / 32760))))
    )
    return math.log(x) - 0.5 / x - series - below


@inner_kernel
def _share_out(count, strength, likelihood, sums):
    """Distribute the count of a word over the topics in proportion to φ."""
    total = 0.0
    for k in range(len(strength)):
        total += strength[k] * likelihood[k]
    weight = count / total
    for k in range(len(strength)):
        sums[k] += weight * strength[k] * likelihood[k]


@kernel
def infer_topics(rows, beta, prior, gamma, mass, max_steps, tolerance):
    """Update φ and γ of every document until γ changes by less than `tolerance` on average.

    `gamma` (d × k) is the start, and is updated in place. Expected counts are added to `mass` (w ×
    k, like `beta`). `prior` (d × k) is the mean of α over genres.
    """
    indptr, terms, counts = rows
    n_topics = beta.shape[1]
    strength = np.zeros(n_topics)
    new = np.zeros(n_topics)
    for d in range(len(indptr) - 1):
        first, last = indptr[d], indptr[d + 1]
        for _ in range(max_steps):
            for k in range(n_topics):
                strength[k] = math.exp(digamma(gamma[d, k]))
                new[k] = prior[d, k]
            for e in range(first, last):
                _share_out(counts[e], strength, beta[terms[e]], new)
            change = 0.0
            for k in range(n_topics):
                change += abs(new[k] - gamma[d, k])
                gamma[d, k] = new[k]
            if change <= tolerance * n_topics:
                break
        # γ already has the counts of the last φ; those of the words follow from the final γ.
        for k in range(n_topics):
            strength[k] = math.exp(digamma(gamma[d, k]))
        for e in range(first, last):
            _share_out(counts[e], strength, beta[terms[e]], mass[terms[e]])


@kernel
def sum_log_proportions(gamma, groups, n_groups):
    """Return Σ_d E[log θ_d] of each group (g × k)."""
    n_docs, n_topics = gamma.shape
    sums = np.zeros((n_groups, n_topics))
    for d in range(n_docs):
        total = 0.0
        for k in range(n_topics):
            total += gamma[d, k]
        whole = digamma(total)
        for k in range(n_topics):
            sums[groups[d], k] += digamma(gamma[d, k]) - whole
    return sums


@kernel
def infer_genres(sums, sizes, alpha, pi):
    """Return λ (g × t): log λ_gt = log π_t + Σ_d E[log Dir(θ_d; α_t)] + const."""
    n_groups, n_topics = sums.shape
    n_genres = len(pi)
    weights = np.zeros((n_groups, n_genres))
    for g in range(n_groups):
        largest = -np.inf
        for t in range(n_genres):
            total = 0.0
            value = 0.0
            for k in range(n_topics):
                total += alpha[t, k]
                value -= sizes[g] * math.lgamma(alpha[t, k])
                value += (alpha[t, k] - 1.0) * sums[g, k]
            value += sizes[g] * math.lgamma(total) + math.log(pi[t])
            weights[g, t] = value
            largest = max(largest, value)
        total = 0.0
        for t in range(n_genres):
            weights[g, t] = math.exp(weights[g, t] - largest)
            total += weights[g, t]
        for t in range(n_genres):
            weights[g, t] /= total
    return weights
