"""Compiling early.

The kernels of detection take as long to compile as those of training. While one worker compiles
and trains, another can compile what comes next; the disk cache hands it to all that share it.
Workers that are threads of one process compile one after another: there, processes of their own do
it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from atd_dask.distribution.detection import detect
from atd_dask.distribution.engine.counters import count_nothing
from atd_dask.kernels.alternative import NullContext
from atd_dask.kernels.blocks import MemoryCorpus
from atd_dask.kernels.detection_rules import DetectionRules
from atd_dask.kernels.fitters import Fitter
from atd_dask.kernels.growth import MembershipRule, SettleRule
from atd_dask.kernels.jit import STORE
from atd_dask.kernels.model import Block, WordTable
from atd_dask.kernels.next_document import Sample
from atd_dask.kernels.word_switches import make_table

if TYPE_CHECKING:
    from distributed import Client

N_WORDS = 12
# Finds the modules that this process found, wherever it had them from.
PROGRAM = f"""
import sys
sys.path[:] = sys.argv[2:]
import {__name__} as warming
getattr(warming, sys.argv[1])()
"""


def compile_early(client: Client) -> None:
    """Lets a worker compile the kernels of detection when it has nothing better to do."""
    from distributed import fire_and_forget

    fire_and_forget(client.submit(compile_detection, key="compile-detection", priority=-1))


@contextmanager
def compile_apart() -> Iterator[bool]:
    """Lets other processes compile the kernels of detection during the block, if none are kept yet;
    says whether they do. They end with the block at the latest."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        if sys.executable and STORE.is_empty():
            with suppress(OSError):  # no Python that could be started
                processes += map(_start, (compile_detection, compile_topic))
        yield bool(processes)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _start(function: Callable[[], object]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, function.__name__, *sys.path],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def compile_topic() -> None:
    """Learns a topic and fits documents to it, with kernels that a detection comes to late: it
    starts with others. Where both want the same kernel, one of them waits."""
    corpus, table = _make_example()
    block, fitter = corpus.rows(0, corpus.n_docs), Fitter(NullContext.of(table))
    topic = fitter.train(block)
    fitter.shares(topic, block)
    fit = fitter.fit(block)
    fitter.gains(topic, Sample(block, fit))
    fitter.batch(block, fit).gains_above(topic, np.ones(len(block), bool), 0.0)


def _make_example() -> tuple[MemoryCorpus, WordTable]:
    """A few documents, and a null model of them."""
    counts = np.ones((12, N_WORDS), np.int32)
    counts[:6, :6] += 3
    counts[6:, 6:] += 3
    words = np.tile(np.arange(N_WORDS, dtype=np.int32), len(counts))
    ends = np.arange(len(counts) + 1) * N_WORDS
    shared = np.full(N_WORDS, 1 / N_WORDS)
    specific = np.zeros((2, N_WORDS), bool)
    specific[0, :2] = specific[1, 2:4] = True
    table = make_table(shared, specific, np.tile([1.5, 0.5], (2, 6)) / N_WORDS)
    return MemoryCorpus(Block(ends, words, counts.ravel()), N_WORDS), table


def compile_detection() -> int:
    """Runs a detection that is small but goes through every kernel; gives how many clusters it
    looked at."""
    corpus, table = _make_example()
    rules = DetectionRules(
        seeds=2,
        stop=MembershipRule(replicates=5, test_below=1.0, min_size=1),
        settle=False,
        settling=SettleRule(0.5),
        pool="validation+batch",
        mothers=2,
        replicates=5,
        level=0.5,
        searches=0,
        failures=1,
        remember=True,
        unseen=True,
        max_clusters=1,
    )
    corpora = {"train": corpus, "validation": corpus}
    with count_nothing():
        return sum(
            len(detect(table, corpus, corpora, replace(rules, settle=settle), seed=1))
            for settle in (False, True)
        )
