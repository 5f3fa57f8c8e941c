"""Random small corpora and models for hypothesis."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from atd_dask.kernels.model import Block, WordTable
from atd_dask.kernels.statistics import ExpectedCounts
from atd_dask.kernels.word_switches import SharedModel, WordSwitches, estimate_words


def make_block(counts):
    """A block from a dense matrix documents × words."""
    counts = np.asarray(counts)
    rows, terms = np.nonzero(counts)
    indptr = np.searchsorted(rows, np.arange(len(counts) + 1))
    return Block(indptr, terms.astype(np.int32), counts[rows, terms].astype(np.int32))


def make_expected(x, tokens=None):
    """Expected counts from a dense matrix topics × words."""
    x = np.asarray(x, float)
    topics, words = np.nonzero(x)
    tokens = np.ceil(x.sum(axis=1)).astype(np.int64) if tokens is None else np.asarray(tokens)
    return ExpectedCounts(
        np.searchsorted(topics, np.arange(len(x) + 1)),
        words.astype(np.int32),
        x[topics, words],
        tokens,
        np.zeros(len(x)),
    )


def make_switches(u):
    topics, words = np.nonzero(u)
    return WordSwitches(np.searchsorted(topics, np.arange(len(u) + 1)), words.astype(np.int32))


def dense_switches(switches, n_words):
    u = np.zeros((len(switches.indptr) - 1, n_words), bool)
    u[np.repeat(np.arange(len(u)), np.diff(switches.indptr)), switches.words] = True
    return u


@st.composite
def corpora(draw, max_docs=6, max_words=8, min_docs=1):
    """A dense matrix of counts in which every document and every word occurs."""
    n_docs = draw(st.integers(min_docs, max_docs))
    n_words = draw(st.integers(3, max_words))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    counts = rng.poisson(draw(st.sampled_from([0.4, 1.5, 6.0])), (n_docs, n_words))
    counts[np.arange(n_docs), rng.integers(n_words, size=n_docs)] += 1
    counts[rng.integers(n_docs, size=n_words), np.arange(n_words)] += 1
    return counts


@st.composite
def models(draw, n_words, max_topics=4):
    """A word table with random switches, and its shared model."""
    n_topics = draw(st.integers(1, max_topics))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shared = SharedModel.from_counts(rng.integers(1, 20, n_words))
    u = rng.random((n_topics, n_words)) < draw(st.sampled_from([0.3, 0.7, 1.0]))
    u[:, :2] = True
    x = rng.gamma(0.5, 10.0, (n_topics, n_words)) + 1e-3
    table: WordTable = estimate_words(make_expected(x), shared, make_switches(u))
    return table, shared


@st.composite
def cases(draw):
    """Counts of documents that all have a word, and a model over the same words."""
    counts = draw(corpora(min_docs=2))
    counts[:, 0] += 7
    return counts, draw(models(counts.shape[1], max_topics=3))


@st.composite
def word_counts(draw):
    """Expected counts of words, the shared model, switches, and the tokens of topics."""
    n_topics = draw(st.integers(1, 3))
    n_words = draw(st.integers(3, 7))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    x = rng.gamma(0.4, 30.0, (n_topics, n_words))
    x[rng.random(x.shape) < 0.3] = 0
    x[:, 0] += 1
    shared = SharedModel.from_counts(rng.integers(1, 40, n_words))
    u = rng.random(x.shape) < 0.7
    u[:, :2] = True
    tokens = np.ceil(x.sum(axis=1)).astype(np.int64) + rng.integers(0, 50, n_topics)
    return x, shared, u, tokens
