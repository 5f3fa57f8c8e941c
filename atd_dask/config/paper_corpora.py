"""Configurations for the corpora of the paper."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from atd_dask.config.inputs import find_input
from atd_dask.config.loader import make_detection
from atd_dask.config.run_config import (
    DATASETS,
    CorpusConfig,
    EvaluationConfig,
    NullModelConfig,
    RunConfig,
    SignificanceConfig,
    TopicsConfig,
)
from atd_dask.errors import InputError
from atd_dask.result_types import Result
from atd_dask.text import datasets
from atd_dask.text.options import Source

LARGEST_CLUSTER = 500  # at which the paper stopped ATD with LDA by hand

ANOMALOUS = {
    "reuters": ("coffee", "ship"),
    "newsgroups": ("rec.sport.hockey", "talk.politics.mideast"),
    "synthetic": ("10", "11"),
}
TOPICS = {
    "reuters": TopicsConfig(max=35, min=10),
    "newsgroups": TopicsConfig(max=40, min=10),
    "synthetic": TopicsConfig(max=15, min=5),
}


def paper_config(name: str, corpora: str | None, output: str) -> RunConfig:
    """Return the configuration of `conf/<name>.yaml`, which is not part of the package.

    With a folder of prepared corpora, the documents are its files `<name>/train.ldac.gz` and so on,
    already counted and split. Without, they are the named dataset.
    """
    if name not in DATASETS:
        raise InputError(f"a corpus of the paper must be {' or '.join(DATASETS)}, got {name}")
    return RunConfig(
        name=name,
        output=output,
        corpus=_dataset(name) if corpora is None else _prepared(name, corpora),
        null_model=NullModelConfig(topics=TOPICS[name]),
        evaluation=EvaluationConfig(anomalous=ANOMALOUS[name]),
    )


def _dataset(name: str) -> CorpusConfig:
    if name not in datasets.NAMES:
        return CorpusConfig(dataset=name)
    return CorpusConfig(dataset=name, anomalous=ANOMALOUS[name], text=datasets.preparation(name))


def _prepared(name: str, corpora: str) -> CorpusConfig:
    folder = _find(corpora, "the folder of prepared corpora")

    def find(file: str) -> str:
        return _find(f"{folder}/{name}/{file}", f"a file of the prepared corpus {name}")

    # The words of the synthetic corpus are numbers and need no file.
    vocabulary = None if name == "synthetic" else find("vocabulary.txt")

    def source(part: str) -> Source:
        return Source("ldac", find(f"{part}.ldac.gz"), find(f"{part}.labels"), vocabulary)

    return CorpusConfig(train=source("train"), validation=source("validation"), test=source("test"))


def _find(path: str, role: str) -> str:
    found, rule = find_input(path, Path.cwd())
    if rule is not None:
        raise InputError(f"{role} must be {rule}, got {path}")
    return found


def configure_lda(config: RunConfig, result: Result) -> RunConfig:
    """Configure ATD by the paper's rules with LDA instead of PTM.

    It has the same number of topics as the PTM of `result` and finds the same number of clusters,
    untested, each stopped at the size at which the paper stopped.
    """
    n_topics = max(result.null_model.n_topics, 2)
    n_clusters = max(len(result.significant), 1)
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
