from __future__ import annotations

import json

import numpy as np
from click.testing import CliRunner

from atd_dask.bench.problem_material import read_pool
from atd_dask.cli.command import atd

WORDS = {
    "cars": "engine wheel road driver brake garage",
    "cakes": "flour sugar oven butter recipe cream",
    "boats": "sail harbour anchor captain tide deck",
}


def make_own(folder):
    """Labelled documents on three subjects; the words of one are in the test part alone."""
    stream = np.random.default_rng(1)
    files = {"train": ("cars", "cakes"), "test": ("cars", "cakes", "boats")}
    for part, subjects in files.items():
        lines = []
        for number in range(150 * len(subjects)):
            subject = subjects[number % len(subjects)]
            words = stream.choice(WORDS[subject].split(), 12)
            document = {"text": " ".join(words), "topic": subject, "id": f"{part} {number}"}
            lines.append(json.dumps(document))
        (folder / f"{part}.jsonl").write_text("\n".join(lines))
    source = "{format: jsonl, path: PART.jsonl, labels_field: topic}"
    (folder / "own.yaml").write_text(
        f"""
name: own
corpus:
  train: {source.replace("PART", "train")}
  test: {source.replace("PART", "test")}
null_model: {{topics: {{max: 3, min: 2}}}}
"""
    )


def test_labelled_documents_of_a_configuration(tmp_path):
    make_own(tmp_path)
    arguments = ["bench", "problems", "--config", str(tmp_path / "own.yaml"), "--no-nulls"]
    arguments += ["--only", "own-choose-0[12]", "--output", str(tmp_path / "problems")]
    result = CliRunner().invoke(atd, arguments)
    assert result.exit_code == 0, result.stderr
    problems = json.loads((tmp_path / "problems" / "problems.json").read_text())["problems"]
    assert [problem["name"] for problem in problems] == ["own-choose-01", "own-choose-02"]
    for problem in problems:
        assert {group["label"] for group in problem["groups"]} <= set(WORDS)
        assert problem["runs"][0]["found"]
    pool = read_pool(
        tuple(
            str(tmp_path / "problems" / "corpora" / "own" / "corpus" / f"{part}.zarr")
            for part in ("train", "validation", "test")
        )
    )
    assert pool.n_words == sum(len(words.split()) for words in WORDS.values())


def test_two_sources_of_problems_are_a_mistake(tmp_path):
    arguments = ["bench", "problems", "--corpora", "here", "--config", "there.yaml"]
    result = CliRunner().invoke(atd, arguments)
    assert result.exit_code == 2
    assert "--corpora and --config must not be given together" in result.stderr
