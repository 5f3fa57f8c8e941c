"""Measures what a set-up would find, and how often it would raise a false alarm, on its own normal
documents.

Every trial is saved, so that an interrupted calibration resumes where it stopped.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from atd_dask.config.rules import rules_of
from atd_dask.config.run_config import EvaluationConfig, RunConfig
from atd_dask.distribution.engine.observation import describe_cluster
from atd_dask.distribution.engine.runner import Runner
from atd_dask.distribution.grids import Arrays, run_grid
from atd_dask.errors import AtdError, InputError
from atd_dask.evaluation.trials import (
    FORMAT,
    SIZES,
    SetUpFigures,
    Trial,
    choose_topics,
    judge_trials,
    list_trials,
)
from atd_dask.pipelines.ingest import ingest
from atd_dask.pipelines.train import train
from atd_dask.report.set_up_page import render_figures
from atd_dask.stages.set_up_trials import TrialWork, name_topics, read_normal
from atd_dask.storage.atomic_files import write_file
from atd_dask.storage.checkpoints import Checkpoints
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.models import read_model
from atd_dask.storage.run_layout import RunLayout
from atd_dask.storage.stage_notes import stage_key

if TYPE_CHECKING:
    from atd_dask.distribution.engine.clients import Client
    from atd_dask.progress import Progress

# If nothing says how large batches are, a batch has this share of the normal documents.
USUAL_SHARE = 0.2

# A batch has at most this share of them: comparisons need twice as many.
LARGEST_SHARE = 0.3


def calibrate(
    config: RunConfig,
    n_batch: int | None,
    n_nothing: int,
    n_planted: int,
    client: Client,
    progress: Progress,
) -> SetUpFigures:
    """Search batches of normal documents with nothing in them, and batches with planted groups on
    held-out topics; write the figures and their page.

    If `n_batch` is None, batches are as large as that of the run in the same folder, if there is
    one.
    """
    rules, level = rules_of(config), config.detection.significance.level
    if not rules.settle or not rules.searches:
        raise InputError(
            "calibrate measures the contrast search, so detection.settle must be true and"
            " detection.significance.searches at least 1, got"
            f" {str(rules.settle).lower()} and {rules.searches}"
        )
    if n_nothing <= rules.searches:
        raise InputError(
            "--nothing must be more than detection.significance.searches, got"
            f" {n_nothing} and {rules.searches}"
        )
    own = _find_folder(config)
    ingest(own, client, progress)
    layout = RunLayout(own.output)
    urls = tuple(layout.corpus(part) for part in ("train", "validation"))
    pool = read_normal(urls)
    labels = pool.labels
    labelled = any(labels)
    if not labelled:
        train(own, client, progress)
        table = read_model(layout.model).table
        labels = name_topics(pool, rules.fitter(table), Runner(client))
    topics = choose_topics(labels, config.seed)
    if not topics:
        progress.warn(
            f"no topic has at least {SIZES[-1]} documents and at most a fifth of all, so nothing"
            " is planted"
        )
    n_batch = _choose_size(config, n_batch, len(pool.documents), progress)
    work = TrialWork(urls, topics, rules, n_batch, config.seed)
    key = stage_key(
        FORMAT,
        [CorpusStore.open(url).digest for url in urls],
        {name: rows.tolist() for name, rows in topics.items()},
        asdict(rules),
        n_batch,
        config.seed,
    )
    trials = list_trials(key, n_nothing, n_planted, tuple(topics))
    found = _run(trials, work, Checkpoints(layout.checkpoints("trials"), key), client, progress)
    false_alarms, rates = judge_trials(trials, found, level, rules.searches, config.seed)
    figures = SetUpFigures(
        format=FORMAT,
        name=config.name,
        seed=config.seed,
        batch=n_batch,
        normal=len(pool.documents),
        level=level,
        searches=rules.searches,
        topics=tuple(topics),
        labelled=labelled,
        false_alarms=false_alarms,
        found=rates,
    )
    content = json.dumps(figures.to_json(), indent=1, allow_nan=False, ensure_ascii=False)
    write_file(layout.figures, content.encode() + b"\n")
    write_file(layout.figures_page, render_figures(figures))
    return figures


def _find_folder(config: RunConfig) -> RunConfig:
    """Return the run that makes the stores: from normal documents only, unless a dataset has all
    parts."""
    own = replace(config, output=RunLayout(config.output).calibration.folder)
    if config.corpus.dataset is not None:
        return own
    corpus = replace(config.corpus, test=None)
    return replace(own, corpus=corpus, evaluation=EvaluationConfig())


def _choose_size(config: RunConfig, asked: int | None, n_normal: int, progress: Progress) -> int:
    """Return how many documents a batch has: as many as requested, or as the batch of the run."""
    most = int(LARGEST_SHARE * n_normal)
    least = 2 * SIZES[-1]
    if most < least:
        raise InputError(
            f"calibrate needs at least {int(least / LARGEST_SHARE) + 1} normal documents, got"
            f" {n_normal}"
        )
    wanted = asked
    if wanted is None:
        try:
            wanted = CorpusStore.open(RunLayout(config.output).corpus("test")).n_docs
        except AtdError:
            wanted = int(USUAL_SHARE * n_normal)
    size = min(max(wanted, least), most)
    if size != wanted:
        progress.warn(
            f"batches have {size:,} documents instead of {wanted:,}: they need at least {least},"
            f" and at most {LARGEST_SHARE:.0%} of the {n_normal:,} normal documents"
        )
    return size


def _run(
    trials: Sequence[Trial],
    work: TrialWork,
    checkpoints: Checkpoints,
    client: Client,
    progress: Progress,
) -> dict[Trial, Arrays]:
    """Run all trials; a few of them first, to estimate how long the rest takes."""
    left = [trial for trial in trials if checkpoints.load(trial.name) is None]
    n_first = 4 * max(describe_cluster(client).threads, 1)
    # The first ones may have to compile kernels and read the documents.
    for some in (left[:n_first], left[n_first : 2 * n_first]):
        start = time.monotonic()
        run_grid(client, work, some, checkpoints)
        seconds = (time.monotonic() - start) / n_first
    left = left[2 * n_first :]
    if left:
        minutes = seconds * len(left) / 60
        about = f"about {round(minutes)} min" if minutes >= 1.5 else "about a minute"
        progress.say(f"{about} to go", searches=len(left))
    with progress.task("trials", len(trials), "searches") as task:
        return run_grid(client, work, trials, checkpoints, lambda trial: task.advance())
