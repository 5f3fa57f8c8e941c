from __future__ import annotations

import json
from types import SimpleNamespace

from click.testing import CliRunner

from atd_dask.bench.large_batch import Shape
from atd_dask.bench.large_job import LargeJob, MeasuredJob, compare, spell, tabulate, write_texts
from atd_dask.bench.usage import Usage
from atd_dask.cli.command import atd


def make_result(*clusters):
    def document(label):
        return SimpleNamespace(labels=(label,) if label else ())

    significant = [
        SimpleNamespace(documents=[document(label) for label in labels]) for labels in clusters
    ]
    return SimpleNamespace(significant=significant, null_model=SimpleNamespace(n_topics=3))


def test_planted_documents_are_labelled(tmp_path):
    job = LargeJob(1_000, Shape(500, 3, n_groups=2), group_size=5)
    counted = []
    write_texts(tmp_path / "batch.jsonl", "test", job.n_batch, job, counted.append)
    lines = [json.loads(line) for line in (tmp_path / "batch.jsonl").read_text().splitlines()]
    assert sum(counted) == len(lines) == 100
    labels = [label for line in lines for label in line["labels"]]
    assert sorted(labels) == ["group 0"] * 5 + ["group 1"] * 5


def test_words_are_all_different_and_long_enough_to_be_read():
    words = [spell(number) for number in range(60_000)]
    assert len(set(words)) == len(words)
    assert min(map(len, words)) >= 3


def test_a_cluster_without_a_majority_is_false():
    result = make_result(["group 0"] * 5 + [""], ["group 1", "", ""], ["group 0"] * 2, [""])
    assert compare(result) == ({"group 0"}, 2)


def test_the_exponent_compares_the_cost_of_a_document():
    shape = Shape(500, 3, n_groups=2)
    found = make_result(["group 0"], ["group 1"])
    small = MeasuredJob(LargeJob(1_000, shape), found, {"train": Usage(1.0, 10.0, 0)})
    large = MeasuredJob(LargeJob(10_000, shape), found, {"train": Usage(1.0, 100.0, 10**9)})
    assert tabulate(small, None)["exponent"] == ""
    row = tabulate(large, small)
    assert row["exponent"] == "1.00"
    assert row["CPU s, train"] == 100.0
    assert row["peak GB"] == 1.0
    assert (row["groups found"], row["false clusters"]) == (2, 0)


def test_the_command():
    arguments = ["--documents", "1000", "--words", "2000", "--topics", "3", "--groups", "1"]
    result = CliRunner().invoke(atd, ["bench", "scale", *arguments, "--group-size", "10"])
    assert result.exit_code == 0, result.stderr
    header, row = result.stdout.splitlines()
    assert header.startswith("training documents")
    assert row.startswith("1,000")
