from __future__ import annotations

from pathlib import Path

import pytest

from atd_dask.config.loader import load
from atd_dask.config.run_config import RunConfig
from atd_dask.errors import ConfigError

SOURCES = "corpus:\n  train: {format: jsonl, path: a}\n  test: {format: jsonl, path: a}\n"
COUNTS = "corpus:\n  train: {format: ldac, path: a}\n  test: {format: ldac, path: a}\n"
DATASET = "corpus: {dataset: reuters}\n"


def load_text(folder: Path, text: str) -> RunConfig:
    (folder / "a").write_text("")
    (folder / "c.yaml").write_text(text)
    return load(folder / "c.yaml")


@pytest.mark.parametrize(
    "text",
    [
        SOURCES,
        COUNTS,
        DATASET,
        SOURCES + "  validation: {format: text, path: a, encoding: latin-1}\n",
        SOURCES + "  validation_share: 0.2\n",
        SOURCES + "evaluation: {anomalous: [x]}\n",
        COUNTS.replace("test: {", "test: {labels: a, ") + "evaluation: {anomalous: [x]}\n",
        DATASET + "evaluation: {anomalous: [x]}\n",
        SOURCES + "sweep: {window: 1}\n",
        DATASET + "cluster: {class: a.B, kwargs: {x: 1}, adapt: {minimum: 1}}\n",
        DATASET + "cluster: {scheduler_file: a, security: {ca: a, cert: a, key: a}}\n",
        DATASET + "detection: {significance: {replicates: 99, level: 0.01}}\n",
        "corpus: {train: {format: synthetic}, test: {format: synthetic}}\n",
        "corpus: {dataset: reuters, path: a, anomalous: [x]}\n",
    ],
)
def test_consistent(tmp_path: Path, text: str) -> None:
    load_text(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("seed: 1\n", "corpus must have train and test, or dataset, got neither (c.yaml, line 1)"),
        (
            "seed: 1\ncorpus: {train: {format: jsonl, path: a}}\n",
            "corpus must have train and test, or dataset, got train (c.yaml, line 2)",
        ),
        (
            SOURCES + "  dataset: reuters\n",
            "corpus.dataset may not be set with train, validation, test, got it with train and test"
            " (c.yaml, line 4)",
        ),
        (
            SOURCES + "  anomalous: [x]\n",
            "corpus.anomalous may only be set with corpus.dataset, got no dataset (c.yaml, line 4)",
        ),
        (
            SOURCES + "  path: a\n",
            "corpus.path may only be set with corpus.dataset, got no dataset (c.yaml, line 4)",
        ),
        (
            "corpus: {dataset: synthetic, path: a}\n",
            "corpus.path may only be set with a dataset that is not generated, got synthetic"
            " (c.yaml, line 1)",
        ),
        (
            "corpus: {dataset: reuters, validation_share: 0.1}\n",
            "corpus.validation_share may not be set with corpus.validation or dataset, got both"
            " (c.yaml, line 1)",
        ),
        (
            SOURCES.replace("path: a}", "path: a, labels: a}", 1),
            "corpus.train.labels may only be set with the format ldac or npz, got jsonl"
            " (c.yaml, line 2)",
        ),
        (
            COUNTS.replace("path: a}", "path: a, text_field: x}", 1),
            "corpus.train.text_field may only be set with the format jsonl, csv, tsv or parquet,"
            " got ldac (c.yaml, line 2)",
        ),
        (
            SOURCES.replace(", path: a", "", 1),
            "corpus.train.path must be given for the format jsonl, got nothing (c.yaml, line 2)",
        ),
        (
            SOURCES.replace("path: a", "path: a, encoding: utf-16", 1),
            "corpus.train.encoding must be an encoding that extends ASCII, such as utf-8 or"
            " latin-1, got utf-16 (c.yaml, line 2)",
        ),
        (
            SOURCES.replace("path: a", "path: b", 1),
            "corpus.train.path must be an existing file or folder (looked for FOLDER/b), got b"
            " (c.yaml, line 2)",
        ),
        (
            COUNTS + "evaluation:\n  anomalous: [x]\n",
            "evaluation.anomalous may only be set with corpus.test.labels, got no labels"
            " (c.yaml, line 5)",
        ),
        (
            DATASET + "sweep: {window: 1}\n",
            "corpus.dataset may not be set with the section sweep, got both (c.yaml, line 1)",
        ),
        (
            "sweep: {window: 1}\n"
            "corpus: {train: {format: jsonl, path: a}, test: {format: synthetic}}\n",
            "corpus.test.format must be ldac, jsonl, csv, tsv, parquet, text, npz or zarr for"
            " sweeps, got synthetic (c.yaml, line 2)",
        ),
        (
            DATASET + "null_model: {topics: {max: 5}}\n",
            "null_model.topics.min must be at most null_model.topics.max, got 10 and 5"
            " (c.yaml, line 2)",
        ),
        (
            DATASET + "null_model: {topics: {max: 15, limit: 12}}\n",
            "null_model.topics.limit must be at least null_model.topics.max, got 12 and 15"
            " (c.yaml, line 2)",
        ),
        (
            DATASET + "detection: {significance: {level: 0.001, searches: 0}}\n",
            "detection.significance.replicates must be enough for a p-value of 0.001, got 99,"
            " with which none is below 0.01 (c.yaml, line 2)",
        ),
        (
            DATASET + "detection: {repeats: 3, significance: {replicates: 99, searches: 0}}\n",
            "detection.significance.replicates must be enough for a p-value of 0.01, got 99, with"
            " which none is below 0.015 in 3 repeats (c.yaml, line 2)",
        ),
        (
            SOURCES + "sweep: {window: 1}\ndetection: {repeats: 3}\n",
            "detection.repeats must be 1 for sweeps, which keep one null model from sweep to sweep"
            " to recognise known clusters, got 3 (c.yaml, line 5)",
        ),
        (
            DATASET + "cluster: {}\n",
            "cluster must have exactly one of local, address, scheduler_file, class, got none of"
            " them (c.yaml, line 2)",
        ),
        (
            DATASET + "cluster: {local: {}, address: x}\n",
            "cluster must have exactly one of local, address, scheduler_file, class, got local and"
            " address (c.yaml, line 2)",
        ),
        (
            DATASET + "cluster: {address: x, kwargs: {}}\n",
            "cluster.kwargs may only be set with cluster.class, got it alone (c.yaml, line 2)",
        ),
        (
            DATASET + "cluster: {address: x, adapt: {}}\n",
            "cluster.adapt may only be set with cluster.class, got it alone (c.yaml, line 2)",
        ),
        (
            DATASET + "cluster: {address: x, security: {ca: a, cert: a}}\n",
            "cluster.security.key must be given, got nothing (c.yaml, line 2)",
        ),
    ],
)
def test_one_inconsistency_is_one_sentence(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=r"\)$") as caught:
        load_text(tmp_path, text)
    (found,) = caught.value.problems
    folder = str(tmp_path)
    assert found.replace(f"({folder}/c.yaml", "(c.yaml") == problem.replace("FOLDER", folder)


def test_replicates_do_not_limit_the_level_if_searches_decide(tmp_path: Path) -> None:
    config = load_text(tmp_path, DATASET + "detection: {significance: {level: 0.0001}}\n")
    assert config.detection.significance.level == 0.0001


def test_what_is_refused_already_is_not_judged_again(tmp_path: Path) -> None:
    text = SOURCES + "null_model: {topics: {max: 1, min: 40}}\n"
    with pytest.raises(ConfigError, match=r"topics\.max must be at least 2") as caught:
        load_text(tmp_path, text)
    assert len(caught.value.problems) == 1
    with pytest.raises(ConfigError, match="corpus must be a mapping") as caught:
        load_text(tmp_path, "corpus: 3\n")
    assert len(caught.value.problems) == 1
