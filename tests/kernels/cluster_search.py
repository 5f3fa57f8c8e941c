"""Order selections that can be watched, on random corpora and on the paper's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from atd_dask.kernels.blocks import MemoryCorpus
from atd_dask.kernels.model import Block, Proportions, WordTable
from atd_dask.kernels.passes import LocalPasses, Pass, slope_topics
from atd_dask.kernels.seeding import seed_topics
from atd_dask.kernels.training import (
    Convergence,
    CostTerms,
    OrderRange,
    SelectionState,
    select_order,
    start_selection,
)
from atd_dask.kernels.word_switches import SharedModel
from atd_dask.text import readers
from atd_dask.text.options import Source
from tests import naive
from tests.kernels.strategies import make_block
from tests.shared import shared


def read_block(name, part="train"):
    """A part of one of the paper's corpora, and the number of its words."""
    path = shared(f"corpora/{name}/{part}.ldac.gz")
    batches = list(readers.counts(Source("ldac", str(path))).batches())
    sizes = np.concatenate([np.diff(batch.indptr) for batch in batches])
    terms = np.concatenate([batch.terms for batch in batches])
    counts = np.concatenate([batch.counts for batch in batches])
    return Block(np.concatenate(([0], np.cumsum(sizes))), terms, counts), int(terms.max()) + 1


def random_counts(rng):
    """A corpus with some structure, including empty documents and words that do not occur."""
    n_docs, n_words, n_topics = rng.integers(1, 50), rng.integers(1, 40), rng.integers(1, 6)
    topics = rng.dirichlet(np.full(n_words, rng.choice([0.05, 0.3, 2.0])), n_topics)
    mixtures = rng.dirichlet(np.full(n_topics, rng.choice([0.1, 1.0])), n_docs) @ topics
    lengths = rng.poisson(rng.choice([1, 5, 30, 200]), n_docs)
    lengths[0] += 1
    pairs = zip(lengths, mixtures / mixtures.sum(axis=1, keepdims=True), strict=True)
    return np.stack([rng.multinomial(length, mixture) for length, mixture in pairs])


@dataclass(frozen=True)
class Iteration:
    """One GEM iteration: what the documents started from, under which words, and the outcome."""

    state: SelectionState
    previous: SelectionState
    table: WordTable
    start: Proportions
    slope: Any
    anchors: Any
    result: Pass

    @property
    def bic(self):
        """The BIC according to the search."""
        return self.state.records[-1].bic if self.state.start is None else self.state.bic


@dataclass
class WatchedPasses:
    """Passes that remember the last fit."""

    inner: LocalPasses
    fitted: list[Any] = field(default_factory=list)

    @property
    def n_words(self):
        return self.inner.n_words

    def count_words(self):
        return self.inner.count_words()

    def assign(self, table):
        return self.inner.assign(table)

    def fit(self, table, start, lda, likely):
        result = self.inner.fit(table, start, lda, likely)
        slope = slope_topics(table, start.tokens, lda)
        self.fitted.append((table, start.proportions, slope, start.anchors, result))
        return result

    def forget(self):
        self.inner.forget()


def watch_search(
    block, n_words, orders, convergence=None, starts=None, seed=0, terms=None, table=None
):
    """Return every iteration of a search, and its final state; `starts` cuts it into blocks. With a
    table, documents first get their best topics of it; otherwise topics are seeded."""
    corpus = MemoryCorpus(block, n_words, starts)
    passes = WatchedPasses(LocalPasses(corpus))
    common = SharedModel.from_counts(passes.count_words())
    if table is None:
        seeds = seed_topics(
            corpus.lengths(), lambda d: corpus.rows(d, d + 1), n_words, orders.max, seed, 0
        )
        previous = start_selection(common, seeds)
    else:
        previous = SelectionState(table, iteration=-1)
    iterations = []

    def keep(state):
        nonlocal previous
        if passes.fitted:
            iterations.append(Iteration(state, previous, *passes.fitted.pop()))
        previous = state

    end = select_order(
        passes,
        common,
        previous,
        orders,
        convergence or Convergence(),
        terms or CostTerms(),
        keep,
    )
    return iterations, end


def check_fall(block, iterations, rounding=1e-11):
    """The BIC of the equation never rises, neither when words are chosen nor when documents are
    fitted, and the search reports it correctly. Returns the largest relative error of the
    report."""
    worst = 0.0
    for step in iterations:
        after_words = naive.bic_of_blocks(block, step.start, step.table)
        after_documents = naive.bic_of_blocks(block, step.result.proportions, step.table)
        slack = rounding * (abs(after_documents) + block.counts.sum())
        assert after_documents <= after_words + slack
        if np.isfinite(step.previous.bic):
            assert after_words <= step.previous.bic + slack
            assert step.bic <= step.previous.bic + slack
        error = abs(step.bic - after_documents)
        worst = max(worst, error / max(1.0, abs(after_documents)))
    return worst


def random_search(seed, **options):
    """A search on a random corpus, cut at random, with random settings."""
    rng = np.random.default_rng(seed)
    block = make_block(counts := random_counts(rng))
    cuts = rng.integers(0, len(counts), rng.integers(0, 8))
    starts = np.unique(np.concatenate(([0, len(counts)], cuts)))
    most = int(rng.integers(1, 10))
    orders = OrderRange(most, int(rng.integers(1, most + 1)), int(rng.integers(1, 4)))
    convergence = Convergence(float(rng.choice([1e-4, 1e-8, 0.0])), int(rng.choice([1, 3, 30])))
    return block, *watch_search(
        block, counts.shape[1], orders, convergence, starts, seed=seed, **options
    )
