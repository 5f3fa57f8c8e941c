"""The paper's tables: ATD with several null models, and every method that it is compared with.

Finished work is never repeated: ATD keeps its stages like any run, and the grid keeps each of its
points.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from atd_dask.baselines import likelihood
from atd_dask.baselines.grid import Grid, GridWork, list_points, list_trials
from atd_dask.baselines.requirements import check_baselines
from atd_dask.bench.method_figures import judge_method, sample_words, summarise_atd
from atd_dask.config.paper_corpora import configure_lda, paper_config
from atd_dask.config.run_config import CorpusConfig, RunConfig
from atd_dask.distribution.grids import run_grid
from atd_dask.documents import PARTS
from atd_dask.evaluation.comparison import (
    Task,
)
from atd_dask.evaluation.paper_tables import (
    CorpusFigures,
    make_tables,
    write_markdown,
)
from atd_dask.pipelines.ingest import ingest
from atd_dask.pipelines.run import run
from atd_dask.report import render_tables
from atd_dask.result_types import Evaluation, Result
from atd_dask.storage.atomic_files import join, write_file
from atd_dask.storage.checkpoints import Checkpoints
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.models import read_model
from atd_dask.storage.run_layout import RunLayout
from atd_dask.storage.stage_notes import stage_key
from atd_dask.text.options import Source

if TYPE_CHECKING:
    from atd_dask.distribution.engine.clients import Client
    from atd_dask.progress import Progress

FORMAT = "atd-dask-tables/1"


def check_request(names: Sequence[str], corpora: str | None, output: str) -> list[RunConfig]:
    """Return the corpora as configurations, or raise whatever is wrong with the request before any
    work starts."""
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
    """Yield Markdown, corpus by corpus; the folder `output` has the tables of all corpora so
    far."""
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
                "seeds": [result.seed for result in one.results],
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
    """Run ATD with every seed, then the grid, and return the best settings of the grid for each
    seed."""
    ingest(config, client, progress)
    stores = {part: CorpusStore.open(RunLayout(config.output).corpus(part)) for part in PARTS}
    runs = [_configure_run(config, stores, seed) for seed in seeds]
    results = tuple(_run(one, client, progress) for one in runs)
    with_lda = [
        _run(configure_lda(*pair), client, progress) for pair in zip(runs, results, strict=True)
    ]
    work = GridWork(stores["train"], stores["test"], grid)
    points = list_points(grid, seeds)
    key = stage_key(FORMAT, stores["train"].digest, stores["test"].digest, grid.describe())
    checkpointer = Checkpoints(join(config.output, "grid"), key)
    with progress.task(f"grid of {config.name}", len(points), "points") as task:
        found = run_grid(
            client, work, points, checkpointer, lambda point: task.advance(point=point.name)
        )
    labels = stores["test"].labels()
    test = stores["test"].rows(0, stores["test"].n_docs)
    tasks, trials = [], []
    anomalous = config.evaluation.anomalous
    n_odd = sum(not set(anomalous).isdisjoint(one) for one in labels)
    told = Task(labels, anomalous, len(anomalous), n_odd)
    for seed, one, result in zip(seeds, runs, results, strict=True):
        scores = likelihood.score_documents(test, read_model(RunLayout(one.output).model).table)
        trials.append(list_trials(grid, seed, found, scores))
        significant = [len(c.rows_with_copies) for c in result.significant]
        # If ATD finds nothing, the others may still name one cluster, and one document.
        sizes = max(len(significant), 1), max(sum(significant), 1)
        tasks.append(Task(labels, anomalous, *sizes))
    methods = [
        summarise_atd(_list_evaluations(results)),
        summarise_atd(_list_evaluations(with_lda), "ATD_LDA", documents=False),
        *(judge_method(name, tasks, [one[name] for one in trials]) for name in trials[0]),
    ]
    informed = tuple(
        judge_method(name, [told] * len(trials), [one[name] for one in trials])
        for name in trials[0]
    )
    words = sample_words(config.name, runs[0], results[0], stores["test"])
    return CorpusFigures(config.name, results, tuple(methods), words, informed)


def _configure_run(config: RunConfig, stores: Mapping[str, CorpusStore], seed: int) -> RunConfig:
    """Return the configuration of ATD with one seed; the documents and their split stay the
    same."""
    train, validation, test = (Source("zarr", stores[part].url) for part in PARTS)
    return replace(
        config,
        seed=seed,
        output=join(config.output, f"atd-{seed}"),
        corpus=CorpusConfig(
            train=train, validation=validation, test=test, copies=config.corpus.copies
        ),
    )


def _list_evaluations(results: Sequence[Result]) -> list[Evaluation]:
    """Return the evaluation of each result; the corpora of the paper have labels, so every result
    has one."""
    return [result.evaluation for result in results if result.evaluation is not None]


def _run(config: RunConfig, client: Client, progress: Progress) -> Result:
    result = run(config, client, progress).result
    assert result is not None
    return result
