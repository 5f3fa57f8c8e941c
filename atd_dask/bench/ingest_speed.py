"""Measures ingest: speed and memory, next to well-known tools.

Speed is documents per second, by the clock and by the CPU time of all processes. Compare only
within one run.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from atd_dask.bench.usage import Row, Usage, measure
from atd_dask.config.cluster_options import ClusterOptions, LocalOptions
from atd_dask.config.run_config import CorpusConfig, RunConfig
from atd_dask.distribution.engine.clients import connect
from atd_dask.kernels.streams import open_stream
from atd_dask.text.options import Source
from atd_dask.text.words import Tokeniser

if TYPE_CHECKING:
    from atd_dask.bench.usage import Ingest
    from atd_dask.progress import Progress

N_TOKENS = 100
N_WORDS = 50_000
WORKERS = (1, 2)
# Documents that are ingested before anything is measured: a shard for each worker, which loads what
# it needs with the first one.
FIRST_DOCUMENTS = 60_000


def bench_ingest(n_docs: int, ingest: Ingest, progress: Progress) -> list[Row]:
    """Measure ingest of generated documents from jsonl with one worker and with two, and
    scikit-learn's CountVectorizer on the same text with the same tokeniser."""
    with tempfile.TemporaryDirectory(prefix="atd-dask-bench-") as folder:
        path = Path(folder, "documents.jsonl")
        with progress.task("write documents", n_docs, "documents") as task:
            for n_written in write_documents(path, n_docs):
                task.advance(n_written)
        for name, n_lines in (("few", 10), ("some", FIRST_DOCUMENTS)):
            with path.open("rb") as source:
                lines = b"".join(source.readline() for _ in range(n_lines))
            Path(folder, f"{name}.jsonl").write_bytes(lines)
        usages = {
            f"atd-dask ingest, {_count(workers)}, stores written": _measure_ingest(
                Path(folder), n_docs, workers, ingest, progress
            )
            for workers in WORKERS
        }
        usages["scikit-learn CountVectorizer, in memory"] = _measure_vectorizer(
            path, n_docs, progress
        )
        seconds = next(iter(usages.values())).seconds
        return [_row(name, n_docs, usage, seconds) for name, usage in usages.items()]


def write_documents(path: Path, n_docs: int, seed: int = 1) -> Iterator[int]:
    """Write documents of Zipf-distributed words as JSON lines, yielding how many at a time."""
    stream = open_stream(seed, "bench/documents")
    syllables = np.array([a + b for a in "bcdfghklmnprstvz" for b in "aeiou"])
    picks = stream.integers(len(syllables), size=(N_WORDS, 5))
    sizes = stream.integers(2, 6, size=N_WORDS)
    words = ["".join(syllables[pick[:size]]) for pick, size in zip(picks, sizes, strict=True)]
    weights = np.cumsum(1.0 / np.arange(1, N_WORDS + 1))
    with path.open("w", encoding="ascii") as file:
        for first in range(0, n_docs, 10_000):
            size = min(10_000, n_docs - first)
            drawn = stream.random(size * N_TOKENS) * weights[-1]
            numbers = np.searchsorted(weights, drawn, side="right").tolist()
            for row in range(size):
                text = " ".join(words[n] for n in numbers[row * N_TOKENS : (row + 1) * N_TOKENS])
                file.write(json.dumps({"id": str(first + row), "text": text}) + "\n")
            yield size


def _measure_ingest(
    folder: Path, n_docs: int, workers: int, ingest: Ingest, progress: Progress
) -> Usage:
    def configure(name: str) -> RunConfig:
        train, few = (
            Source(format="jsonl", path=str(folder / f"{n}.jsonl")) for n in (name, "few")
        )
        output = str(folder / f"output-{name}-{workers}")
        return RunConfig(name="bench", output=output, corpus=CorpusConfig(train=train, test=few))

    options = ClusterOptions(local=LocalOptions(workers=workers, threads=1))
    with connect(options) as client:
        ingest(configure("some"), client, progress)
        with measure() as usage:
            summary = ingest(configure("documents"), client, progress)
    assert summary["train"].documents + summary["validation"].documents == n_docs
    return usage


def _count(workers: int) -> str:
    return "1 worker" if workers == 1 else f"{workers} workers"


def _measure_vectorizer(path: Path, n_docs: int, progress: Progress) -> Usage:
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer = CountVectorizer(
        tokenizer=Tokeniser(CorpusConfig().text).words, token_pattern=None, lowercase=False
    )
    with progress.task("count with scikit-learn", n_docs, "documents") as task, measure() as usage:

        def texts() -> Iterator[str]:
            with path.open(encoding="ascii") as file:
                for line in file:
                    task.advance(1)
                    yield json.loads(line)["text"]

        vectorizer.fit_transform(texts())
    return usage


def _row(name: str, n_docs: int, usage: Usage, seconds: float) -> Row:
    return {
        "what": name,
        "documents": n_docs,
        "seconds": round(usage.seconds, 1),
        "documents_per_second": round(n_docs / usage.seconds),
        "times_one_worker": round(seconds / usage.seconds, 2),
        "cpu_seconds": round(usage.cpu_seconds, 1),
        "client_cpu_seconds": round(usage.own_cpu_seconds, 1),
        "documents_per_cpu_second": round(n_docs / usage.cpu_seconds),
        "peak_gigabytes": round(usage.peak_bytes / 1e9, 2),
    }
