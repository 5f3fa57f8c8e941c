"""Compiling early.

The kernels of detection take as long to compile as those of training. While one worker compiles
and trains, another can compile what comes next; the disk cache hands it to all that share it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from atd_dask.distribution.counters import count_nothing
from atd_dask.distribution.detection import detect
from atd_dask.distribution.rules import DetectionRules
from atd_dask.kernels.blocks import MemoryCorpus
from atd_dask.kernels.clusters import MembershipRule, SettleRule
from atd_dask.kernels.model import Block
from atd_dask.kernels.wording import make_table

if TYPE_CHECKING:
    from distributed import Client

N_WORDS = 12


def compile_early(client: Client) -> None:
    """Lets a worker compile the kernels of detection when it has nothing better to do."""
    from distributed import fire_and_forget

    fire_and_forget(client.submit(compile_detection, key="compile-detection", priority=-1))


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
