"""A small repository that grows, for tests of sweeps."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path

from atd_dask.cli.outputs import make_progress
from atd_dask.config.loader import load
from atd_dask.pipelines.sweep import sweep

CONFIG = """
name: sweeps
cluster: {local: {workers: 1, threads: 1}}
corpus:
  train: {format: jsonl, path: normal.jsonl}
  test: {format: jsonl, path: repository}
  text: {stop_words: none, stemmer: none}
null_model: {topics: 2}
detection:
  seeds: 20
  membership: {replicates: 100}
  significance: {replicates: 100, level: 0.05, searches: 19}
sweep: {window: 2}
"""

SUBJECTS = [[f"{a}{b}x" for b in "bcdfghklmn"] for a in ("aa", "ee")]
UNUSUAL = [f"{a}{b}x" for a, b in zip("bcdfghkl", "aeioaeio", strict=True)]


def draw_text(chance: random.Random, unusual: bool = False) -> str:
    """Thirty words on one subject, with an occasional unusual one; half of them unusual if asked
    for."""
    words = chance.choices(chance.choice(SUBJECTS), k=14 if unusual else 29)
    return " ".join(words + chance.choices(UNUSUAL, k=16 if unusual else 1))


def make_documents(name: str, n_docs: int, n_unusual: int = 0) -> list[dict[str, str]]:
    chance = random.Random(name)
    usual = [{"id": f"{name}-{n}", "text": draw_text(chance)} for n in range(n_docs)]
    unusual = [
        {"id": f"{name}-unusual-{n}", "text": draw_text(chance, True)} for n in range(n_unusual)
    ]
    return usual + unusual


def make_lines(documents: list[dict[str, str]]) -> str:
    return "".join(json.dumps(document) + "\n" for document in documents)


def add_day(folder: Path, day: int, n_docs: int = 30, n_unusual: int = 0) -> None:
    """A file that has not been touched for a while."""
    path = folder / "repository" / f"{day}.jsonl"
    path.write_text(make_lines(make_documents(f"day{day}", n_docs, n_unusual)))
    age(path)


def age(path: Path) -> None:
    before = time.time() - 60
    os.utime(path, (before, before))


def prepare(folder: Path, text: str = CONFIG) -> Path:
    (folder / "repository").mkdir()
    (folder / "normal.jsonl").write_text(make_lines(make_documents("normal", 200)))
    (folder / "conf.yaml").write_text(text)
    return folder


def run_sweep(folder, client, *overrides):
    """A sweep in this process, without the lock."""
    config = load(folder / "conf.yaml", [f"output={folder / 'out'}", *overrides])
    return sweep(config, client, make_progress(quiet=True), ["atd-dask", "sweep"])


def read_history(folder: Path) -> list[dict[str, object]]:
    text = (folder / "out" / "history.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]
