"""Scores documents: how unusual each one is, and the odds that it belongs to a cluster."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from atd_dask.kernels.alternative import Alternative
from atd_dask.kernels.blocks import Corpus, join_blocks
from atd_dask.kernels.calibration import SomeRows
from atd_dask.kernels.document_gains import cross_fit_gains
from atd_dask.kernels.fitters import Fitter
from atd_dask.kernels.model import Block, Floats, Ints
from atd_dask.kernels.next_document import Sample

if TYPE_CHECKING:
    from atd_dask.distribution.engine.runner import Runner

BLOCKS_PER_TASK = 8


@dataclass(frozen=True, slots=True)
class DocumentScores:
    """Scores of the documents of a batch; those without known words have no surprise."""

    surprise: Floats  # nats per word under the null model
    novelty: Floats  # the share of normal documents that surprise less
    nearest: Ints  # the cluster with the largest odds, or -1
    log_odds: Floats  # of belonging to it
    usual: Floats  # the surprise of normal documents, ascending

    @property
    def odds(self) -> Floats:
        """The odds, clipped to finite numbers."""
        odds: Floats = np.exp(np.minimum(self.log_odds, 700.0))
        return odds


def score_documents(
    runner: Runner,
    fitter: Fitter,
    test: Corpus,
    normal: Corpus,
    clusters: Sequence[Sequence[int]],
) -> DocumentScores:
    """Score all documents of `test`, given `normal` ones that the null model was not trained on.

    `clusters` has the rows of each cluster. Its own documents are scored by topics learned from its
    other documents. Blocks of documents are scored in parallel.
    """
    members = [np.sort(np.array(rows, dtype=np.int64)) for rows in clusters]
    samples = [_fit(fitter, SomeRows(test, mine).rows(0, len(mine))) for mine in members]
    topics = [fitter.train(sample.block).smoothed(fitter.context) for sample in samples]
    surprise, gains = _score_blocks(runner, fitter, test, topics)
    usual = np.sort(_score_blocks(runner, fitter, normal, [])[0])
    usual = usual[np.isfinite(usual)]
    novelty = np.searchsorted(usual, surprise) / max(len(usual), 1)
    novelty[np.isnan(surprise)] = np.nan
    nearest = np.full(test.n_docs, -1)
    log_odds = np.full(test.n_docs, -np.inf)
    for number, (mine, sample) in enumerate(zip(members, samples, strict=True)):
        gains[mine, number] = cross_fit_gains(fitter, sample)
        now = gains[:, number] + math.log(len(mine) / max(test.n_docs - len(mine), 1))
        better = now > log_odds
        nearest[better] = number
        log_odds[better] = now[better]
    return DocumentScores(surprise, novelty, nearest, log_odds, usual)


def _score_blocks(
    runner: Runner, fitter: Fitter, corpus: Corpus, topics: Sequence[Alternative]
) -> tuple[Floats, Floats]:
    """Return the surprise of each document, and its gain from each topic."""
    pieces = pairwise(join_blocks(corpus, BLOCKS_PER_TASK).tolist())
    scored = list(runner.map(score_rows, (corpus, fitter, topics), pieces))
    nothing = np.zeros(0), np.zeros((0, len(topics)))
    surprise, gains = zip(nothing, *scored, strict=True)
    return np.concatenate(surprise), np.concatenate(gains)


def score_rows(
    given: tuple[Corpus, Fitter, Sequence[Alternative]], rows: tuple[int, int]
) -> tuple[Floats, Floats]:
    corpus, fitter, topics = given
    sample = _fit(fitter, corpus.rows(*rows))
    gains = np.zeros((len(sample.block), len(topics)))
    for number, topic in enumerate(topics):
        gains[:, number] = fitter.gains(topic, sample)
    return _measure_surprise(sample), gains


def _fit(fitter: Fitter, block: Block) -> Sample:
    return Sample(block, fitter.fit(block))


def _measure_surprise(sample: Sample) -> Floats:
    lengths = sample.fit.lengths
    surprise = np.full(len(lengths), np.nan)
    some = lengths > 0
    surprise[some] = -sample.fit.log_likelihoods[some] / lengths[some]
    return surprise
