"""How unusual each document of a batch is, and how likely it belongs to a cluster."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from atd_dask.kernels.blocks import Corpus
from atd_dask.kernels.fitters import Fitter
from atd_dask.kernels.growth import Sample
from atd_dask.kernels.model import Floats, Ints
from atd_dask.kernels.support import cross_fit_gains


@dataclass(frozen=True, slots=True)
class DocumentScores:
    """Scores of the documents of a batch; those without a known word have no surprise."""

    surprise: Floats  # nats for each word under the null model
    novelty: Floats  # the share of normal documents that surprise less
    nearest: Ints  # the cluster for which the odds are largest, -1 where there is none
    odds: Floats  # that it belongs there


def score_documents(
    fitter: Fitter, test: Corpus, normal: Corpus, clusters: Sequence[Sequence[int]]
) -> DocumentScores:
    """Scores of all documents of `test`, beside `normal` ones that the null model was not trained
    on; `clusters` have their rows. A cluster's own documents are asked by topics that others of
    it taught."""
    batch = _fit(fitter, test)
    surprise = _measure_surprise(batch)
    usual = np.sort(_measure_surprise(_fit(fitter, normal)))
    usual = usual[np.isfinite(usual)]
    novelty = np.searchsorted(usual, surprise) / max(len(usual), 1)
    novelty[np.isnan(surprise)] = np.nan
    n_docs = len(batch.block)
    nearest = np.full(n_docs, -1)
    log_odds = np.full(n_docs, -np.inf)
    for number, rows in enumerate(clusters):
        mine = np.sort(np.array(rows, dtype=np.int64))
        topic = fitter.train(batch.block.take(mine)).smoothed(fitter.context)
        gains = fitter.gains(topic, batch)
        gains[mine] = cross_fit_gains(fitter, batch.take(mine))
        now = gains + math.log(len(mine) / max(n_docs - len(mine), 1))
        better = now > log_odds
        nearest[better] = number
        log_odds[better] = now[better]
    odds = np.exp(np.minimum(log_odds, 700.0))
    return DocumentScores(surprise, novelty, nearest, odds)


def _fit(fitter: Fitter, corpus: Corpus) -> Sample:
    block = corpus.rows(0, corpus.n_docs)
    return Sample(block, fitter.fit(block))


def _measure_surprise(sample: Sample) -> Floats:
    lengths = sample.fit.lengths
    surprise = np.full(len(lengths), np.nan)
    some = lengths > 0
    surprise[some] = -sample.fit.log_likelihoods[some] / lengths[some]
    return surprise
