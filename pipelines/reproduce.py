"""The paper's tables: ATD over several null models, and every method that it is compared with.

Nothing finished is done again: ATD keeps its stages as any run does, the grid each of its points.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from atd_dask.baselines import likelihood
from atd_dask.baselines.grid import Grid, GridWork, Trial, list_points, list_trials
from atd_dask.config.paper_corpora import paper_config
from atd_dask.config.run_config import (
    CorpusConfig,
    RunConfig,
    SignificanceConfig,
    TopicsConfig,
    make_detection,
)
from atd_dask.distribution.grids import run_grid
from atd_dask.errors import UserError
from atd_dask.evaluation import paper
from atd_dask.evaluation.comparison import (
    Spread,
    Task,
    best_place,
    judge_documents,
    judge_groups,
)
from atd_dask.evaluation.copy_groups import list_rows
from atd_dask.evaluation.metrics import Agreement
from atd_dask.evaluation.paper_tables import (
    CorpusFigures,
    MethodFigures,
    Words,
    choose_words,
    find_cluster,
    make_tables,
    write_markdown,
)
from atd_dask.pipelines.ingest import PARTS, corpus_path, ingest
from atd_dask.pipelines.report import count_words
from atd_dask.pipelines.run import run
from atd_dask.pipelines.train import model_path
from atd_dask.report import render_tables
from atd_dask.storage.checkpoints import Checkpoints
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.files import join, write_file
from atd_dask.storage.models import read_model
from atd_dask.storage.stages import stage_key
from atd_dask.text.options import Source

if TYPE_CHECKING:
    from distributed import Client

    from atd_dask.progress import Progress

FORMAT = "atd-dask-tables/1"
LARGEST_CLUSTER = 500  # where the paper stopped ATD with LDA by hand


def check_baselines() -> None:
    if find_spec("sklearn") is None:
        raise UserError(
            "the methods to compare with need scikit-learn, which cannot be found:"
            " pip install 'atd-dask[baselines]'"
        )


def check_request(names: Sequence[str], corpora: str | None, output: str) -> list[RunConfig]:
    """The corpora as configurations; whatever is wrong with the request is said before any work."""
    check_baselines()
    unique = dict.fromkeys(names)
    return [paper_config(name, corpora, join(output, name)) for name in unique]


def reproduce(
    configs: Sequence[RunConfig],
    n_seeds: int,
    output: str,
    client: Client,
    progress: Progress,
) -> Iterator[str]:
    """Markdown, corpus after corpus; the tables of all so far are in the folder `output`."""
    figures = []
    for config in configs:
        one = measure_corpus(config, range(1, n_seeds + 1), Grid(), client, progress)
        figures.append(one)
        tables = make_tables(figures)
        write_file(join(output, "tables.md"), write_markdown(tables).encode())
        write_file(join(output, "tables.html"), render_tables(tables, figures))
        write_file(join(output, "tables.json"), _write_json(figures))
        yield write_markdown(make_tables([one]))


def _write_json(figures: Sequence[CorpusFigures]) -> bytes:
    content = {
        "format": FORMAT,
        "corpora": {
            one.corpus: {
                "seeds": [result["seed"] for result in one.results],
                "methods": [asdict(method) for method in one.methods],
                "told_the_true_numbers": [asdict(method) for method in one.told],
            }
            for one in figures
        },
    }
    return json.dumps(content, indent=1, allow_nan=False).encode() + b"\n"


def measure_corpus(
    config: RunConfig, seeds: Sequence[int], grid: Grid, client: Client, progress: Progress
) -> CorpusFigures:
    """ATD with every seed, then the grid, then for each seed the best of it."""
    ingest(config, client, progress)
    stores = {part: CorpusStore.open(corpus_path(config, part)) for part in PARTS}
    runs = [_configure_run(config, stores, seed) for seed in seeds]
    results = tuple(_run(one, client, progress) for one in runs)
    with_lda = [
        _run(configure_lda(*pair), client, progress) for pair in zip(runs, results, strict=True)
    ]
    work = GridWork(stores["train"], stores["test"], grid)
    points = list_points(grid, seeds)
    key = stage_key(FORMAT, stores["train"].digest, stores["test"].digest, grid.describe())
    keeper = Checkpoints(join(config.output, "grid"), key)
    with progress.task(f"grid of {config.name}", len(points), "points") as task:
        found = run_grid(client, work, points, keeper, lambda point: task.advance(point=point.name))
    labels = stores["test"].labels()
    test = stores["test"].rows(0, stores["test"].n_docs)
    tasks, trials = [], []
    anomalous = config.evaluation.anomalous
    n_odd = sum(not set(anomalous).isdisjoint(one) for one in labels)
    told = Task(labels, anomalous, len(anomalous), n_odd)
    for seed, one, result in zip(seeds, runs, results, strict=True):
        scores = likelihood.score_documents(test, read_model(model_path(one)).table)
        trials.append(list_trials(grid, seed, found, scores))
        significant = [len(list_rows(c)) for c in result["clusters"] if c["significant"]]
        # Where ATD finds nothing the others may still name one cluster, and a document.
        sizes = max(len(significant), 1), max(sum(significant), 1)
        tasks.append(Task(labels, anomalous, *sizes))
    methods = [
        summarise_atd(results),
        summarise_atd(with_lda, "ATD_LDA", documents=False),
        *(judge_method(name, tasks, [one[name] for one in trials]) for name in trials[0]),
    ]
    informed = tuple(
        judge_method(name, [told] * len(trials), [one[name] for one in trials])
        for name in trials[0]
    )
    words = _sample_words(config.name, runs[0], results[0], stores["test"])
    return CorpusFigures(config.name, results, tuple(methods), words, informed)


def _configure_run(config: RunConfig, stores: Mapping[str, CorpusStore], seed: int) -> RunConfig:
    """ATD with one seed: the documents and their division stay the same."""
    train, validation, test = (Source("zarr", stores[part].url) for part in PARTS)
    return replace(
        config,
        seed=seed,
        output=join(config.output, f"atd-{seed}"),
        corpus=CorpusConfig(
            train=train, validation=validation, test=test, copies=config.corpus.copies
        ),
    )


def configure_lda(config: RunConfig, result: Mapping[str, Any]) -> RunConfig:
    """ATD by the paper's rules with LDA in place of PTM, and as many topics as PTM has. It names as
    many clusters as ATD, untested, each stopped where the paper stopped its one."""
    n_topics = max(result["null_model"]["n_topics"], 2)
    n_clusters = max(sum(cluster["significant"] for cluster in result["clusters"]), 1)
    detection = make_detection(
        {"rules": "paper", "max_clusters": n_clusters, "max_size": LARGEST_CLUSTER}
    )
    return replace(
        config,
        output=f"{config.output}-lda",
        corpus=replace(config.corpus, copies="keep"),
        null_model=replace(
            config.null_model, topic_model="lda", topics=TopicsConfig(max=n_topics, min=n_topics)
        ),
        detection=replace(
            detection, significance=SignificanceConfig(replicates=1, level=1.0, searches=0)
        ),
    )


def _run(config: RunConfig, client: Client, progress: Progress) -> dict[str, Any]:
    result: dict[str, Any] = run(config, client, progress)["result"]
    return result


def summarise_atd(
    results: Sequence[Mapping[str, Any]], name: str = "ATD", documents: bool = True
) -> MethodFigures:
    """ATD over its seeds; by its clusters alone, or by their documents too."""

    def spread(kind: str, figure: str) -> Spread:
        return Spread.of(result["evaluation"][kind][figure] for result in results)

    return MethodFigures(
        name,
        spread("group", "f1"),
        spread("group", "auc"),
        spread("group_of_remaining", "f1"),
        spread("group_of_remaining", "auc"),
        spread("individual", "f1") if documents else None,
        spread("individual", "auc") if documents else None,
    )


def judge_method(
    name: str, tasks: Sequence[Task], trials: Sequence[Sequence[Trial]]
) -> MethodFigures:
    """For every seed the best of the grid, for groups and for documents apart."""
    groups, documents = [], []
    for task, some in zip(tasks, trials, strict=True):
        judged = [judge_groups(task, t.scores, t.weights, t.counted, t.groups) for t in some]
        place = best_place([one.whole for one in judged])
        groups.append((judged[place], some[place].setting))
        single = [judge_documents(task, t.scores) for t in some]
        place = best_place(single)
        documents.append((single[place], some[place].setting))

    def spread(agreements: Sequence[Agreement], figure: str) -> Spread:
        return Spread.of(getattr(one, figure) for one in agreements)

    whole = [one.whole for one, _ in groups]
    remaining = [one.remaining for one, _ in groups]
    single = [one for one, _ in documents]
    alone = name != "M4"  # the paper has it for groups only
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


def _sample_words(
    name: str, config: RunConfig, result: Mapping[str, Any], test: CorpusStore
) -> Words | None:
    """The words of the topic that has a column in the paper, if it was found."""
    cluster = find_cluster(result, paper.WORDS[name][0]) if name in paper.WORDS else None
    if cluster is None:
        return None
    model = read_model(model_path(config))
    usual = dict(zip(model.vocabulary, np.asarray(model.table.shared).tolist(), strict=True))
    counts = count_words(test, (document["row"] for document in cluster["documents"]))
    occurring = {word for words in counts.values() for word in words}
    return Words(name, choose_words(cluster, usual, occurring))
