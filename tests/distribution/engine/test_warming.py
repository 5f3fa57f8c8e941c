from __future__ import annotations

import os
import subprocess
import sys

import numpy as np

from atd_dask.distribution.detection import detect
from atd_dask.distribution.rehearsal import compile_detection, compile_topic
from atd_dask.distribution.training import Training, choose_best, train_restarts
from atd_dask.kernels import (
    alternative,
    bootstrap,
    contrast,
    document_gains,
    fitting,
    limits,
    next_document,
    vectors,
)
from atd_dask.kernels.blocks import MemoryCorpus
from atd_dask.kernels.training import Convergence, OrderRange
from tests.distribution.test_detection import rules
from tests.kernels.strategies import make_block

APART = """
import time
import psutil
from atd_dask.distribution.engine.warming import STORE, compile_apart
from atd_dask.distribution.rehearsal import compile_detection, compile_topic

with compile_apart(compile_detection, compile_topic) as apart:
    assert apart
    processes = psutil.Process().children()
    assert len(processes) == 2
    while not any("." in file.name and file.suffix != ".lock" for file in STORE.folder.iterdir()):
        for process in processes:
            assert process.status() != psutil.STATUS_ZOMBIE, "it ended without a kernel"
        time.sleep(0.1)
assert not psutil.Process().children()
with compile_apart(compile_detection) as apart:
    assert not apart
print("done")
"""
KERNELS = (
    alternative.train_topic,
    alternative.new_topic_shares,
    bootstrap._draw_rows,
    bootstrap._expand_tokens,
    bootstrap.similarities,
    fitting._fit_block,
    contrast._compare_words,
    contrast._find_cut,
    contrast._find_reach,
    contrast._learn,
    document_gains.document_gains,
    vectors._add_scores,
    vectors._sort_by_word,
    vectors._weigh_entries,
    vectors.add_ratios,
    vectors.weigh_words,
    next_document._gains_above,
    next_document._next_document,
    limits.start_limits,
)
# Those that get a process of their own.
LATE = (
    alternative.train_topic,
    alternative.new_topic_shares,
    document_gains.document_gains,
    next_document._gains_above,
)


def test_nothing_is_compiled_once_more_when_real_documents_come():
    compile_topic()
    alone = [len(kernel.signatures) for kernel in LATE]
    assert all(alone)
    assert compile_detection() == 2
    assert [len(kernel.signatures) for kernel in LATE] == alone
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


def test_other_processes_compile_where_nothing_is_kept_and_end_with_the_block(tmp_path):
    environment = os.environ | {"ATD_DASK_CACHE": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", APART], env=environment, capture_output=True, text=True, timeout=300
    )
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_nobody_compiles_for_a_folder_that_is_not_to_be_had(tmp_path):
    (tmp_path / "file").touch()
    environment = os.environ | {"ATD_DASK_CACHE": str(tmp_path / "file")}
    program = (
        APART.split("with compile_apart")[0]
        + "with compile_apart(compile_topic) as apart: print(apart)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.stdout, done.stderr) == ("False\n", "")
