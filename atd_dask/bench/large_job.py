"""Measures the whole job on generated documents, stage by stage: how cost and memory grow with the
number of documents, and whether the planted groups are found.

The documents are those of `large_batch`, written as JSON lines in words that are made of
syllables. A planted document has its group as a label.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from atd_dask.bench.large_batch import Shape, choose_planted, draw_documents
from atd_dask.bench.usage import Row, Usage, measure
from atd_dask.config.cluster_options import ClusterOptions, LocalOptions
from atd_dask.config.run_config import (
    CorpusConfig,
    NullModelConfig,
    RunConfig,
    TopicsConfig,
)
from atd_dask.distribution.engine.clients import connect
from atd_dask.storage.runs import read_result
from atd_dask.text.options import Source, TextOptions

if TYPE_CHECKING:
    from atd_dask.distribution.engine.clients import Client
    from atd_dask.progress import Progress
    from atd_dask.result_types import Result

    # Runs one stage of a job; the last one writes the report too.
    RunStage = Callable[[str, RunConfig, Client, Progress], object]

STAGES = ("ingest", "train", "detect")
TRAINED_TO_BATCH = 10  # documents
WORKERS = 2

SYLLABLES = tuple(a + b for a in "bcdfghklmnprstvz" for b in "aeiou")


@dataclass(frozen=True)
class LargeJob:
    """What is to be measured: so many normal documents, and a tenth as many in the batch."""

    n_train: int
    shape: Shape
    group_size: int = 50
    n_orders: int = 1  # numbers of topics that are tried

    @property
    def n_batch(self) -> int:
        return self.n_train // TRAINED_TO_BATCH


@dataclass(frozen=True)
class MeasuredJob:
    """A finished job."""

    job: LargeJob
    result: Result
    stages: Mapping[str, Usage] = field(default_factory=dict)

    @property
    def cpu_per_document(self) -> float:
        cpu_seconds = sum(usage.cpu_seconds for usage in self.stages.values())
        return cpu_seconds / (self.job.n_train + self.job.n_batch)


def bench_scale(jobs: Sequence[LargeJob], run_stage: RunStage, progress: Progress) -> list[Row]:
    """Return a row for each job, from the smallest, with two workers of one thread. The exponent is
    that of CPU time as a power of the number of documents, compared with the row before."""
    rows: list[Row] = []
    before: MeasuredJob | None = None
    for job in sorted(jobs, key=lambda job: job.n_train):
        with tempfile.TemporaryDirectory(prefix="atd-dask-bench-") as folder:
            now = measure_job(job, Path(folder), run_stage, progress)
        rows.append(tabulate(now, before))
        before = now
    return rows


def measure_job(
    job: LargeJob, folder: Path, run_stage: RunStage, progress: Progress
) -> MeasuredJob:
    n_docs = job.n_train + job.n_batch
    with progress.task(f"write {n_docs:,} documents", n_docs, "documents") as task:
        write_texts(folder / "train.jsonl", "train", job.n_train, job, task.advance)
        write_texts(folder / "test.jsonl", "test", job.n_batch, job, task.advance)
    config = configure(job, folder)
    options = ClusterOptions(local=LocalOptions(workers=WORKERS, threads=1))
    stages = {}
    with connect(options) as client:
        for stage in STAGES:
            with measure() as usage:
                run_stage(stage, config, client, progress)
            stages[stage] = usage
            progress.say(
                f"{stage}: {usage.cpu_seconds:.1f} CPU seconds, {usage.own_cpu_seconds:.1f} of them"
                f" in this process, {usage.seconds:.1f} s, {usage.peak_bytes / 1e9:.2f} GB"
            )
    result = read_result(config.output)
    assert result is not None
    found, n_false = compare(result)
    progress.say(f"groups found: {len(found)} of {job.shape.n_groups}; false clusters: {n_false}")
    return MeasuredJob(job, result, stages)


def configure(job: LargeJob, folder: Path) -> RunConfig:
    train, test = (
        Source(format="jsonl", path=str(folder / f"{part}.jsonl")) for part in ("train", "test")
    )
    text = TextOptions(stop_words="none", stemmer="none")
    most = job.shape.n_topics + job.n_orders // 2
    topics = TopicsConfig(max=most, min=most - job.n_orders + 1, widen=False)
    return RunConfig(
        name="scale",
        output=str(folder / "run"),
        corpus=CorpusConfig(train=train, test=test, text=text),
        null_model=NullModelConfig(topics=topics),
    )


def write_texts(
    path: Path, part: str, n_docs: int, job: LargeJob, advance: Callable[[int], None]
) -> None:
    """Write documents as JSON lines; in the batch, groups are planted."""
    shape = job.shape
    n_planted = job.group_size * shape.n_groups if part == "test" else 0
    planted = choose_planted(n_docs, n_planted)
    groups = {row: index % shape.n_groups for index, row in enumerate(planted.tolist())}
    words = [spell(number) for number in range(shape.n_words)]
    with path.open("w", encoding="ascii") as file:
        for batch in draw_documents(part, n_docs, planted, shape):
            bounds, terms, counts = (
                array.tolist() for array in (batch.indptr, batch.terms, batch.counts)
            )
            for row, name in enumerate(batch.ids):
                entries = range(bounds[row], bounds[row + 1])
                text = " ".join(words[terms[e]] for e in entries for _ in range(counts[e]))
                group = groups.get(int(name))
                labels = [] if group is None else [f"group {group}"]
                line = {"id": f"{part}-{name}", "text": text, "labels": labels}
                file.write(json.dumps(line) + "\n")
            advance(len(batch))


def spell(number: int) -> str:
    """Return a word for a number: at least three syllables, the digits of the number."""
    base = len(SYLLABLES)
    word = ""
    while number or len(word) < 3 * len(SYLLABLES[0]):
        number, digit = divmod(number, base)
        word = SYLLABLES[digit] + word
    return word


def compare(result: Result) -> tuple[set[str], int]:
    """Return the planted groups to which most documents of a significant cluster belong, and how
    many significant clusters there are of no group."""
    found = set()
    n_false = 0
    for cluster in result.significant:
        labels = Counter(label for document in cluster.documents for label in document.labels)
        label, most = max(labels.items(), key=lambda item: item[1], default=("", 0))
        if 2 * most > len(cluster.documents):
            found.add(label)
        else:
            n_false += 1
    return found, n_false


def tabulate(now: MeasuredJob, before: MeasuredJob | None) -> Row:
    exponent = ""
    if before is not None:
        more = math.log(now.cpu_per_document / before.cpu_per_document)
        exponent = f"{1 + more / math.log(now.job.n_train / before.job.n_train):.2f}"
    found, n_false = compare(now.result)
    return {
        "training documents": now.job.n_train,
        "batch": now.job.n_batch,
        **{f"CPU s, {stage}": round(usage.cpu_seconds, 1) for stage, usage in now.stages.items()},
        "CPU s of the client": round(sum(u.own_cpu_seconds for u in now.stages.values()), 1),
        "CPU ms per document": f"{1000 * now.cpu_per_document:.2f}",
        "exponent": exponent,
        "seconds": round(sum(usage.seconds for usage in now.stages.values())),
        "peak GB": round(max(usage.peak_bytes for usage in now.stages.values()) / 1e9, 2),
        "topics": now.result.null_model.n_topics,
        "groups": now.job.shape.n_groups,
        "groups found": len(found),
        "false clusters": n_false,
    }
