"""What stands out only once others are gone is not a cluster."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from atd_dask.config.loader import make_detection
from atd_dask.config.rules import make_rules
from atd_dask.distribution.engine.runner import Runner
from atd_dask.kernels.blocks import MemoryCorpus
from atd_dask.kernels.calibration import HeldOutSearch
from atd_dask.kernels.cluster_growth import Growth
from atd_dask.kernels.detection_rules import FoundCluster
from atd_dask.kernels.model import Block
from atd_dask.sweeps.confirmation import confirm_clusters

N_WORDS = 40


def make_corpus(subjects: list[int], seed: int) -> MemoryCorpus:
    """Documents of six words each of one of eight subjects, which have five words."""
    stream = np.random.default_rng(seed)
    counts = np.zeros((len(subjects), N_WORDS), np.int32)
    for row, subject in enumerate(subjects):
        np.add.at(counts[row], 5 * subject + stream.integers(5, size=6), 1)
    documents, words = np.nonzero(counts)
    ends = np.searchsorted(documents, np.arange(len(subjects) + 1))
    return MemoryCorpus(Block(ends, words.astype(np.int32), counts[documents, words]), N_WORDS)


def make_found(documents: range, support: float) -> FoundCluster:
    searches = tuple(HeldOutSearch(float(n)) for n in (4, 5, 6, 5, 4))
    growth = Growth(seed=documents[0], ended=True, documents=tuple(documents), support=support)
    nothing = np.zeros(0)
    # Its topic plays no part here.
    return FoundCluster(growth, None, 0.0, nothing, 0.5, True, 0, searches)  # type: ignore[arg-type]


def test_a_normal_subject_is_no_cluster_and_a_new_one_is():
    normal = make_corpus([n % 7 for n in range(210)], seed=1)
    test = make_corpus([7] * 15 + [n % 7 for n in range(70)], seed=2)
    rules = make_rules(make_detection({"seeds": 5}))
    usual = [row for row in range(15, 85) if (row - 15) % 7 == 0]
    found = [
        make_found(range(15), 60.0),
        make_found(range(15), 60.0),
        replace(
            make_found(range(1), 80.0),
            growth=Growth(seed=15, ended=True, documents=tuple(usual), support=80.0),
        ),
    ]
    first, same, phantom = confirm_clusters(found, test, normal, rules, Runner())
    assert first is found[0], "the first one was found in the whole batch"
    assert same.significant
    assert 20 < same.support <= 60
    assert not phantom.significant
    assert phantom.support < 10
    assert confirm_clusters(found, test, normal, replace(rules, searches=0), Runner()) == found
