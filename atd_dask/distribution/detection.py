"""Detection on a cluster: clusters one after the other, each proposed, tested and removed.

Without a client the same functions run here, one after the other, and give the same bytes: a
growth does not depend on where it runs, and replicates are judged in their order.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np

from atd_dask.distribution.chance import ChanceSearch, search_by_chance, surpass_chance
from atd_dask.distribution.fields import open_field
from atd_dask.distribution.replicates import judge
from atd_dask.distribution.rules import (
    DetectionRules,
    FoundCluster,
    Keeper,
    KeepNothing,
    Tell,
    tell_nobody,
)
from atd_dask.distribution.running import Runner
from atd_dask.kernels.blocks import Corpus
from atd_dask.kernels.model import Floats, WordTable
from atd_dask.kernels.wording import add_topic

if TYPE_CHECKING:
    from distributed import Client


def detect(
    table: WordTable,
    test: Corpus,
    corpora: Mapping[str, Corpus],
    rules: DetectionRules,
    seed: int,
    client: Client | None = None,
    keeper: Keeper | None = None,
    tell: Tell = tell_nobody,
    chance: ChanceSearch | None = None,
) -> list[FoundCluster]:
    """The clusters of a batch in the order in which they are found; the last one may be the one
    that was not significant.

    `corpora` has those that the null model comes from: train, and validation, from which mothers
    are drawn unless they are drawn from train. `chance` replaces the searches in batches that are
    as large as this one, under the model as it is.
    """
    runner = Runner(client)
    keeper = keeper or KeepNothing()
    chance = chance or ChanceSearch(table, corpora, rules, test.n_docs, seed)
    available = np.ones(test.n_docs, dtype=np.bool_)
    found: list[FoundCluster] = []
    gains: Floats | None = None
    with ExitStack() as opened:
        while rules.max_clusters is None or len(found) < rules.max_clusters:
            index = len(found) + 1
            if index == 1 or rules.remember:
                opened.close()
                fitter = rules.fitter(table)
                field = opened.enter_context(
                    open_field(runner, test, corpora[rules.home], rules, fitter)
                )
            search = field.search(available, (seed, index))
            growth = search.propose(runner, keeper, index, tell)
            if growth is None:
                break
            documents = np.array(growth.documents)
            outside = available.copy()
            outside[documents] = False
            topic = search.batch.train(documents)
            score = search.batch.score(documents, topic)
            replicates = field.replicates(documents, outside, search.key)
            cluster = judge(growth, topic, score, replicates, rules, runner, keeper, index, tell)
            if cluster.significant and rules.searches > 0:
                if gains is None:
                    gains = search_by_chance(chance, runner, keeper, tell)
                cluster = surpass_chance(cluster, gains)
            found.append(cluster)
            if not cluster.significant:
                break
            available = outside
            if rules.remember:
                table = add_topic(table, cluster.topic.specific, cluster.topic.probabilities)
    return found
