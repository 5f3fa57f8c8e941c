"""Small detections that call every kernel a real one needs, so that all are compiled.

Each kind of search has its own: kernels that only the other one needs would take a fifth of the
time to compile.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from atd_dask.distribution.detection import detect
from atd_dask.distribution.engine.counters import count_nothing
from atd_dask.kernels.alternative import NullContext
from atd_dask.kernels.blocks import MemoryCorpus
from atd_dask.kernels.cluster_growth import MembershipRule, SettleRule
from atd_dask.kernels.detection_rules import DetectionRules
from atd_dask.kernels.fitters import Fitter
from atd_dask.kernels.model import Block, WordTable
from atd_dask.kernels.next_document import Sample
from atd_dask.kernels.word_switches import make_table

N_WORDS = 12
OWN_WORDS = 2
OWN_DOCUMENTS = 5


def compile_topic() -> None:
    """Learn a topic and fit documents to it, to compile kernels that a detection needs late.

    If both compile the same kernel, one of them waits.
    """
    corpus, _, table = _make_example()
    block, fitter = corpus.rows(0, corpus.n_docs), Fitter(NullContext.of(table))
    topic = fitter.train(block)
    fitter.gains(topic, Sample(block, fitter.fit(block)))


def _make_example() -> tuple[MemoryCorpus, MemoryCorpus, WordTable]:
    """Make a few normal documents, a batch in which some have their own words, and a null model."""
    counts = np.ones((12, N_WORDS), np.int32)
    counts[:6, :6] += 3
    counts[6:, 6:] += 3
    normal = counts.copy()
    normal[:, -OWN_WORDS:] = 0
    batch = counts.copy()
    batch[OWN_DOCUMENTS:, -OWN_WORDS:] = 0
    shared = np.full(N_WORDS, 1 / N_WORDS)
    specific = np.zeros((2, N_WORDS), bool)
    specific[0, :2] = specific[1, 2:4] = True
    table = make_table(shared, specific, np.tile([1.5, 0.5], (2, 6)) / N_WORDS)
    return _make_corpus(normal), _make_corpus(batch), table


def _make_corpus(counts: NDArray[np.int32]) -> MemoryCorpus:
    documents, words = np.nonzero(counts)
    ends = np.searchsorted(documents, np.arange(len(counts) + 1))
    return MemoryCorpus(Block(ends, words.astype(np.int32), counts[documents, words]), N_WORDS)


def compile_detection() -> int:
    """Run a small detection with the contrast search; return the number of candidates."""
    return _detect(settle=True)


def compile_growth() -> int:
    """Run a small detection that grows clusters; return the number of candidates."""
    return _detect(settle=False)


def choose_rehearsal(settle: bool) -> Callable[[], int]:
    """Return what compiles the kernels of a detection with this rule."""
    return compile_detection if settle else compile_growth


def _detect(settle: bool) -> int:
    normal, batch, table = _make_example()
    rules = DetectionRules(
        seeds=2,
        stop=MembershipRule(replicates=5, test_below=1.0, min_size=1),
        settle=settle,
        settling=SettleRule(0.5),
        pool="validation+batch",
        donors=2,
        replicates=5,
        level=0.5,
        searches=0,
        failures=1,
        remember=True,
        unseen=True,
        max_clusters=1,
    )
    corpora = {"train": normal, "validation": normal}
    with count_nothing():
        return len(detect(table, batch, corpora, rules, seed=1))
