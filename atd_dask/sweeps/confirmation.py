"""Tests later clusters of a sweep once more, against the whole batch.

A search continues in the documents that earlier clusters left, and a sweep may find many clusters
that are drift. The remaining documents then have a different mix of subjects from the normal ones:
a normal subject that lost no documents seems more frequent than it is. Its support in the whole
batch is free of that bias.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from atd_dask.distribution.calibration import compare_with_calibration
from atd_dask.distribution.engine.runner import Runner
from atd_dask.distribution.vector_batches import open_vectors
from atd_dask.kernels.blocks import Corpus
from atd_dask.kernels.detection_rules import DetectionRules, FoundCluster


def confirm_clusters(
    found: Sequence[FoundCluster],
    test: Corpus,
    normal: Corpus,
    rules: DetectionRules,
    runner: Runner,
) -> list[FoundCluster]:
    """Return the same candidates, but later ones have at most their support in the whole batch,
    which decides whether they are significant."""
    later = [index for index, cluster in enumerate(found) if index and cluster.significant]
    if not later or not rules.settle or not rules.searches:
        return list(found)
    confirmed = list(found)
    everyone = np.ones(test.n_docs, dtype=np.bool_)
    with open_vectors(runner, test, normal, rules.unseen) as vectors:
        search = vectors.search(everyone, np.zeros(0, np.int64), rules.max_size)
        for index in later:
            cluster = found[index]
            group = search.judge(np.sort(np.array(cluster.documents)))
            support = min(cluster.support, 0.0 if group is None else group.support)
            weaker = replace(cluster, growth=replace(cluster.growth, support=support))
            confirmed[index] = compare_with_calibration(weaker, cluster.searches or (), rules.level)
    return confirmed
