from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from distributed import Event

from atd_dask.distribution.detection import detect
from atd_dask.distribution.engine.warming import compile_early
from atd_dask.distribution.rehearsal import (
    choose_rehearsal,
    compile_detection,
    compile_growth,
    compile_topic,
)
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
from tests.clusters import local_client, wait_for
from tests.distribution.test_detection import rules
from tests.kernels.strategies import make_block


def rehearse():
    return "compiled"


def work_until(name):
    Event(name).wait()


def list_tasks(dask_scheduler):
    return [key for key in dask_scheduler.tasks if key.startswith("rehearse")]


@pytest.mark.parametrize("is_busy", [False, True])
def test_what_is_compiled_early_is_forgotten_at_the_end(is_busy):
    with local_client(1) as client:
        work = client.submit(work_until, "it is late") if is_busy else None
        with compile_early(client, rehearse):
            wait_for(lambda: client.run_on_scheduler(list_tasks))
        wait_for(lambda: not client.run_on_scheduler(list_tasks))
        if work is not None:
            assert not work.done(), "nobody had time to compile"
            Event("it is late", client=client).set()
            work.result()


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
# Kernels that every detection needs, that only the contrast search needs, and only growth.
ALWAYS = (
    alternative.train_topic,
    bootstrap._draw_rows,
    bootstrap._expand_tokens,
    bootstrap.similarities,
    fitting._fit_block,
)
SEARCH = (
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
)
GROWTH = (
    alternative.new_topic_shares,
    next_document._next_document,
    limits.start_limits,
)
# Those that get a process of their own.
LATE = (alternative.train_topic, document_gains.document_gains)


def count_signatures(kernels):
    return [len(kernel.signatures) for kernel in kernels]


def check_rehearsal(settle, needed):
    """Compile what a detection needs, then run one: it must not compile anything else."""
    assert choose_rehearsal(settle)() == 1
    before = count_signatures(needed)
    assert all(before)
    counts = np.random.default_rng(1).poisson(0.5, (60, 40))
    corpus = MemoryCorpus(make_block(counts), 40)
    counts[:15, :8] += 3
    batch = MemoryCorpus(make_block(counts), 40)
    searches = train_restarts(Training(corpus, OrderRange(3, 2), Convergence(), 1), 1)
    parts = {"train": corpus, "validation": corpus}
    assert detect(choose_best(searches), batch, parts, rules(settle=settle), seed=1)
    assert count_signatures(needed) == before


def check_search():
    """Run in a process of its own, where no other test has compiled anything."""
    compile_topic()
    alone = count_signatures(LATE)
    assert all(alone)
    check_rehearsal(True, ALWAYS + SEARCH)
    assert count_signatures(LATE) == alone
    # What only the other kind of detection needs.
    assert not any(count_signatures((*GROWTH, next_document._gains_above)))


def test_nothing_is_compiled_once_more_when_real_documents_come():
    program = "from tests.distribution.engine.test_warming import check_search; check_search()"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_nor_when_clusters_grow():
    check_rehearsal(False, ALWAYS + GROWTH)


def test_each_kind_of_search_has_its_rehearsal():
    assert choose_rehearsal(True) is compile_detection
    assert choose_rehearsal(False) is compile_growth


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
