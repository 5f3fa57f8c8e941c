"""Detection on a cluster: groups are found, tested and removed one after the other.

Without a client the same functions run in this process and give the same bytes: a growth does not
depend on where it runs, and replicates are judged in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from atd_dask.distribution.calibration import Calibration, HeldOutSearches, check_size
from atd_dask.distribution.checkpointing import (
    Checkpointer,
    NoCheckpoints,
    OnProgress,
    ignore_progress,
)
from atd_dask.distribution.engine.runner import Runner
from atd_dask.distribution.newwords import admit_new_words
from atd_dask.distribution.replicates import ScoredGrowth, judge
from atd_dask.distribution.search_space import SearchedDocuments, open_search_space
from atd_dask.distribution.vector_batches import open_vectors
from atd_dask.kernels.blocks import Corpus
from atd_dask.kernels.calibration import JoinedCorpus
from atd_dask.kernels.detection_rules import DetectionRules, FoundCluster
from atd_dask.kernels.model import WordTable
from atd_dask.kernels.word_switches import add_topic

if TYPE_CHECKING:
    from atd_dask.distribution.engine.clients import Client


def detect(
    table: WordTable,
    test: Corpus,
    corpora: Mapping[str, Corpus],
    rules: DetectionRules,
    seed: int,
    client: Client | None = None,
    checkpointer: Checkpointer | None = None,
    on_progress: OnProgress = ignore_progress,
    calibration: Calibration | None = None,
) -> list[FoundCluster]:
    """Find the candidates of a batch, in the order in which they are judged.

    A significant candidate is removed from the batch, and the search continues in the rest. Another
    is set aside, and `rules.failures` of these in a row end the search. `corpora` has the parts
    that the null model comes from: train, and validation, which donors are drawn from unless they
    come from train. `calibration` replaces held-out searches in batches of the size of this one.
    """
    runner = Runner(client)
    checkpointer = checkpointer or NoCheckpoints()
    calibration = calibration or Calibration(corpora, rules, test.n_docs, seed)
    if rules.searches > 0:
        check_size(calibration, test.n_docs)
    if rules.unseen and "train" in corpora:
        table = admit_new_words(runner, table, test, corpora["train"])
    parts = [corpora[part] for part in ("train", "validation") if part in corpora]
    normal = JoinedCorpus(tuple(parts))
    available = np.ones(test.n_docs, dtype=np.bool_)
    found: list[FoundCluster] = []
    searches = HeldOutSearches(calibration, runner, checkpointer, on_progress)
    known = np.zeros(0, np.int64)
    documents = SearchedDocuments(test, corpora[rules.home])
    with (
        ExitStack() as opened,
        open_vectors(runner, test, normal, rules.unseen, on_workers=rules.settle) as vectors,
    ):
        while count_significant(found) != rules.max_clusters:
            number = count_significant(found) + 1
            if number == 1 or rules.remember:
                opened.close()
                fitter = rules.fitter(table)
                space = opened.enter_context(
                    open_search_space(runner, documents, vectors, rules, fitter)
                )
            search = space.search(available, known, (seed, number))
            cluster = None
            candidates = search.propose(runner, checkpointer, len(found) + 1, on_progress)
            for growth in islice(candidates, rules.failures):
                index = len(found) + 1
                members = np.array(growth.documents)
                outside = available.copy()
                outside[members] = False
                topic = search.batch.train(members)
                grown = ScoredGrowth(growth, topic, search.batch.score(members, topic))
                replicates = space.replicates(members, outside, (seed, index))
                cluster = judge(grown, replicates, rules, runner, checkpointer, index, on_progress)
                if rules.searches > 0:
                    cluster = searches.compare(cluster)
                found.append(cluster)
                if cluster.significant:
                    break
            if cluster is None or not cluster.significant:
                break
            available = outside
            if rules.remember:
                # The documents around it do not start another group, but may join one.
                around = np.array(growth.around, dtype=np.int64)
                known = np.union1d(known, np.append(members, around))
                table = add_topic(table, cluster.topic.specific, cluster.topic.probabilities)
    return found


def count_significant(found: Sequence[FoundCluster]) -> int:
    return sum(cluster.significant for cluster in found)
