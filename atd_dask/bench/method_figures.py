"""The figures of ATD and the baselines on a corpus of the paper."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atd_dask.baselines.grid import Trial
from atd_dask.config.run_config import RunConfig
from atd_dask.evaluation import paper
from atd_dask.evaluation.comparison import Spread, Task, best_place, judge_documents, judge_groups
from atd_dask.evaluation.paper_tables import MethodFigures, Words, choose_words, find_cluster
from atd_dask.result_types import Agreement, Evaluation, Result
from atd_dask.stages.result_making import count_words
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.models import read_model
from atd_dask.storage.run_layout import RunLayout


def summarise_atd(
    evaluations: Sequence[Evaluation], name: str = "ATD", documents: bool = True
) -> MethodFigures:
    """Summarise ATD over seeds, by its clusters and optionally by their documents."""
    groups = [one.group for one in evaluations]
    remaining = [one.group_of_remaining for one in evaluations]
    single = [one.individual for one in evaluations]
    return MethodFigures(
        name,
        Spread.of(one.f1 for one in groups),
        Spread.of(one.auc for one in groups),
        Spread.of(one.f1 for one in remaining),
        Spread.of(one.auc for one in remaining),
        Spread.of(one.f1 for one in single) if documents else None,
        Spread.of(one.auc for one in single) if documents else None,
    )


def judge_method(
    name: str, tasks: Sequence[Task], trials: Sequence[Sequence[Trial]]
) -> MethodFigures:
    """Choose the best of the grid for every seed, separately for groups and for documents."""
    groups, documents = [], []
    for task, some in zip(tasks, trials, strict=True):
        judged = [judge_groups(task, t.scores, t.weights, t.counted, t.groups) for t in some]
        index = best_place([one.whole for one in judged])
        groups.append((judged[index], some[index].setting))
        single = [judge_documents(task, t.scores) for t in some]
        index = best_place(single)
        documents.append((single[index], some[index].setting))

    def spread(agreements: Sequence[Agreement], figure: str) -> Spread:
        return Spread.of(getattr(one, figure) for one in agreements)

    whole = [one.whole for one, _ in groups]
    remaining = [one.remaining for one, _ in groups]
    single = [one for one, _ in documents]
    alone = name != "M4"  # the paper reports M4 for groups only
    return MethodFigures(
        name,
        spread(whole, "f1"),
        spread(whole, "auc"),
        spread(remaining, "f1"),
        spread(remaining, "auc"),
        spread(single, "f1") if alone else None,
        spread(single, "auc") if alone else None,
        spread([one.unsorted for one, _ in groups], "auc"),
        tuple(setting for _, setting in groups),
        tuple(setting for _, setting in documents) if alone else (),
    )


def sample_words(name: str, config: RunConfig, result: Result, test: CorpusStore) -> Words | None:
    """Sample the words of the topic that has a column in the paper, if it was found."""
    cluster = find_cluster(result, paper.WORDS[name][0]) if name in paper.WORDS else None
    if cluster is None:
        return None
    model = read_model(RunLayout(config.output).model)
    usual = dict(zip(model.vocabulary, np.asarray(model.table.shared).tolist(), strict=True))
    counts = count_words(test, cluster.rows)
    occurring = {word for words in counts.values() for word in words}
    return Words(name, choose_words(cluster.salient_words, usual, occurring))
