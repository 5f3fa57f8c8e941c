"""The whole job, stage after stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from atd_dask.config.run_config import RunConfig
from atd_dask.distribution.engine.lazy_client import LazyClient, when_open
from atd_dask.distribution.engine.observation import check_memory, describe_cluster, name_tasks
from atd_dask.distribution.engine.warming import compile_early
from atd_dask.distribution.training import SMALL_ENTRIES
from atd_dask.pipelines.ingest import PARTS, corpus_path, ingest
from atd_dask.pipelines.repeats import detect_repeatedly
from atd_dask.pipelines.report import write_report
from atd_dask.pipelines.train import train
from atd_dask.stages.run_record import record_run
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.runs import has_report

if TYPE_CHECKING:
    from distributed import Client

    from atd_dask.progress import Progress

# Each stage with the name of what it makes.
STAGES = {
    "ingest": ("corpus", ingest),
    "train": ("null_model", train),
    "detect": ("result", detect_repeatedly),
}
# What each does, in plain words.
MEANINGS = {
    "ingest": "reading the documents and counting their words",
    "train": "learning from the training documents what is usual",
    "detect": "looking in the batch for groups of documents with an unusual topic",
}


def run(
    config: RunConfig,
    client: Client | LazyClient,
    progress: Progress,
    fresh: bool = False,
    stages: Sequence[str] = tuple(STAGES),
    command: Sequence[str] = (),
    warms: bool = True,
) -> dict[str, Any]:
    """The stages, all or some; what is finished is reused. Gives what each of them made.

    `run.json` tells how it went, also of a run that failed, and names the `command`. With `warms` a
    worker compiles what detection needs while others read and train.
    """
    made = {}
    with record_run(config, client, command, progress.run) as record:
        for stage in stages:
            name, do = STAGES[stage]
            with record.stage(stage, fresh), progress.stage(stage), ExitStack() as span:
                prepare = partial(_prepare, config, stage, warms and "detect" in stages, span)
                progress.say(f"{stage}: {MEANINGS[stage]}")
                with when_open(client, prepare):
                    made[name] = do(config, cast("Client", client), progress, fresh)
        if "result" in made and not (record.all_reused and has_report(config.output)):
            record.write("finished")  # the page tells of it
            with (
                record.stage("report", fresh=True),
                progress.stage("report"),
                progress.task("report", 1, "page") as task,
            ):
                write_report(config.output)
                task.advance()
    if record.all_reused:
        progress.say("nothing was to be done")
    return made


def _prepare(config: RunConfig, stage: str, warms: bool, span: ExitStack, client: Client) -> None:
    """Makes a cluster ready for a stage, once it is known that the stage needs it."""
    span.enter_context(name_tasks(config.name, stage))
    if warms and stage != "detect":
        compile_early(client)
    if stage != "ingest":
        stores = {part: CorpusStore.open(corpus_path(config, part)) for part in PARTS}
        check_memory(describe_cluster(client), *estimate_memory(config, stores))


def estimate_memory(config: RunConfig, stores: Mapping[str, CorpusStore]) -> tuple[int, str]:
    """How many bytes a worker must be able to hold, and what they are.

    Training takes a small corpus as a whole and a large one by the block; detection takes the
    batch and the documents beside which it is judged as a whole.
    """
    train = stores["train"]
    n_docs, n_entries = train.n_docs, train.n_entries
    if n_entries > SMALL_ENTRIES:
        # A block is closed by the document that fills it, so all are about as large.
        n_docs = int(np.diff(train.block_starts).max())
        n_entries = -(-n_entries // train.n_blocks)
    home = train if config.detection.pool == "train" else stores["validation"]
    trained = _count_bytes(n_docs, n_entries)
    tested = sum(_count_bytes(part.n_docs, part.n_entries) for part in (stores["test"], home))
    # A topic has a probability of its own for each of its words: in four columns, with the topic.
    n_specific = min(config.null_model.topics.max * train.n_words, train.n_entries)
    model = 28 * n_specific + 16 * train.n_words
    return max(trained, tested) + model, "the model and the documents that a task works on"


def _count_bytes(n_docs: int, n_entries: int) -> int:
    return 8 * (n_docs + 1) + 8 * n_entries
