"""Compiling early.

The kernels of detection take as long to compile as those of training. While one worker compiles
and trains, another can compile what comes next; the disk cache hands it to all that share it.
Workers that are threads of one process compile one after another: there, a process of its own does
it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from atd_dask.distribution.counters import count_nothing
from atd_dask.distribution.detection import detect
from atd_dask.distribution.rules import DetectionRules
from atd_dask.kernels.blocks import MemoryCorpus
from atd_dask.kernels.clusters import MembershipRule, SettleRule
from atd_dask.kernels.jit import STORE
from atd_dask.kernels.model import Block
from atd_dask.kernels.wording import make_table

if TYPE_CHECKING:
    from distributed import Client

N_WORDS = 12
# Finds the modules that this process found, wherever it had them from.
PROGRAM = f"""
import sys
sys.path[:] = sys.argv[1:]
from {__name__} import compile_detection
compile_detection()
"""


def compile_early(client: Client) -> None:
    """Lets a worker compile the kernels of detection when it has nothing better to do."""
    from distributed import fire_and_forget

    fire_and_forget(client.submit(compile_detection, key="compile-detection", priority=-1))


@contextmanager
def compile_apart() -> Iterator[bool]:
    """Lets another process compile the kernels of detection during the block, if none are kept yet;
    says whether it does. It ends with the block at the latest."""
    if not (sys.executable and STORE.is_empty()):
        yield False
        return
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *sys.path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except OSError:  # no Python that could be started
        yield False
        return
    try:
        yield True
    finally:
        process.kill()
        process.wait()


def compile_detection() -> int:
    """Runs a detection that is small but goes through every kernel; gives how many clusters it
    looked at."""
    counts = np.ones((12, N_WORDS), np.int32)
    counts[:6, :6] += 3
    counts[6:, 6:] += 3
    words = np.tile(np.arange(N_WORDS, dtype=np.int32), len(counts))
    ends = np.arange(len(counts) + 1) * N_WORDS
    corpus = MemoryCorpus(Block(ends, words, counts.ravel()), N_WORDS)
    shared = np.full(N_WORDS, 1 / N_WORDS)
    specific = np.zeros((2, N_WORDS), bool)
    specific[0, :2] = specific[1, 2:4] = True
    table = make_table(shared, specific, np.tile([1.5, 0.5], (2, 6)) / N_WORDS)
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
