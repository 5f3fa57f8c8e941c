from __future__ import annotations

import numpy as np

from atd_dask.distribution.detection import detect
from atd_dask.distribution.training import Training, choose_best, train_restarts
from atd_dask.distribution.warming import compile_detection
from atd_dask.kernels import (
    alternative,
    bootstrap,
    excess,
    fitting,
    growth,
    limits,
    starts,
    support,
)
from atd_dask.kernels.blocks import MemoryCorpus
from atd_dask.kernels.training import Convergence, OrderRange
from tests.distribution.test_detection import rules
from tests.kernels.strategies import make_block

KERNELS = (
    alternative.train_topic,
    alternative.new_topic_shares,
    bootstrap._draw_rows,
    bootstrap._expand_tokens,
    bootstrap.similarities,
    fitting._fit_block,
    starts._compare_frequencies,
    starts._score_documents,
    support.document_gains,
    growth._gains_above,
    growth._next_document,
    limits.start_limits,
    excess.measure_excess,
)


def test_nothing_is_compiled_once_more_when_real_documents_come():
    assert compile_detection() == 2
    before = [len(kernel.signatures) for kernel in KERNELS]
    assert all(before)
    counts = np.random.default_rng(1).poisson(0.5, (60, 40))
    corpus = MemoryCorpus(make_block(counts), 40)
    counts[:15, :8] += 3
    batch = MemoryCorpus(make_block(counts), 40)
    searches = train_restarts(Training(corpus, OrderRange(3, 2), Convergence(), 1), 1)
    assert detect(
        choose_best(searches), batch, {"train": corpus, "validation": corpus}, rules(), seed=1
    )
    assert [len(kernel.signatures) for kernel in KERNELS] == before
