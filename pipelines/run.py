"""The whole job, stage after stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from atd_dask.config.run_config import RunConfig
from atd_dask.distribution.engine.lazy_client import LazyClient, when_open
from atd_dask.distribution.engine.observation import check_memory, describe_cluster, name_tasks
from atd_dask.distribution.engine.patience import PATIENCE, wait_for_worker, watch_cluster
from atd_dask.distribution.engine.warming import compile_early
from atd_dask.distribution.rehearsal import choose_rehearsal
from atd_dask.documents import PARTS
from atd_dask.errors import DamagedStoreError
from atd_dask.pipelines.detect import detect_repeatedly
from atd_dask.pipelines.ingest import ingest
from atd_dask.pipelines.report import write_report
from atd_dask.pipelines.train import train
from atd_dask.result_types import Result
from atd_dask.stages.memory import READING, estimate_memory
from atd_dask.stages.run_record import record_run
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.ownership import claim_folder
from atd_dask.storage.run_layout import RunLayout
from atd_dask.storage.runs import has_report
from atd_dask.storage.stage_notes import CorpusSummary, ModelSummary, forget_stage
from atd_dask.storage.verification import DamagedStore, find_damaged_stores

if TYPE_CHECKING:
    from atd_dask.distribution.engine.clients import Client
    from atd_dask.progress import Progress

# Each stage, and what it makes.
STAGES: dict[str, tuple[str, Callable[..., Any]]] = {
    "ingest": ("corpus", ingest),
    "train": ("null_model", train),
    "detect": ("result", detect_repeatedly),
}
# What each stage does, in plain words.
MEANINGS = {
    "ingest": "reading the documents and counting their words",
    "train": "learning from the training documents what is usual",
    "detect": "looking in the batch for groups of documents with an unusual topic",
}


@dataclass(frozen=True)
class RunProducts:
    """What the stages of a run made; None for stages that did not run."""

    corpus: CorpusSummary | None = None
    null_model: ModelSummary | None = None
    result: Result | None = None


def run(
    config: RunConfig,
    client: Client | LazyClient,
    progress: Progress,
    fresh: bool = False,
    stages: Sequence[str] = tuple(STAGES),
    command: Sequence[str] = (),
    warms: bool = True,
) -> RunProducts:
    """Run all stages or some, reusing what is finished; return what each of them made.

    `run.json` records the run, even if it fails, and names the `command`. With `warms`, a worker
    compiles what detection needs while others read and train.
    """
    claim_folder(config.output)
    with (
        record_run(config, client, command, progress.run) as record,
        watch_cluster(client, find_patience(config), progress.say, progress.warn),
    ):

        def run_stages(fresh: bool) -> RunProducts:
            made = RunProducts()
            for stage in stages:
                name, do = STAGES[stage]
                with record.stage(stage, fresh), progress.stage(stage), ExitStack() as span:
                    early = warms and "detect" in stages
                    prepare = partial(_prepare, config, stage, early, span, progress)
                    progress.say(f"{stage}: {MEANINGS[stage]}")
                    with when_open(client, prepare):
                        given = do(config, cast("Client", client), progress, fresh)
                        made = replace(made, **{name: given})
            if made.result is not None and not (record.all_reused and has_report(config.output)):
                record.write("finished")  # the page shows the run
                with (
                    record.stage("report", fresh=True),
                    progress.stage("report"),
                    progress.task("report", 1, "page") as task,
                ):
                    write_report(config.output)
                    task.advance()
            return made

        try:
            made = run_stages(fresh)
        except DamagedStoreError as error:
            damaged = find_damaged_stores(config.output)
            if not damaged:
                raise
            _forget(damaged, stages, error, progress)
            made = run_stages(fresh=False)
    if record.all_reused:
        progress.say("nothing to do")
    return made


def _forget(
    damaged: Sequence[DamagedStore],
    stages: Sequence[str],
    error: DamagedStoreError,
    progress: Progress,
) -> None:
    """Forget stages whose stores are damaged, so that they run again."""
    for store in damaged:
        forget_stage(store.folder, store.stage)
    missing = [store.stage for store in damaged if store.stage not in stages]
    if missing:
        raise DamagedStoreError(
            f"{damaged[0].path} is damaged: make it again with atd-dask {missing[0]}, or the whole"
            " job with atd-dask run"
        ) from error
    for store in damaged:
        progress.warn(f"{store.path} is damaged: running {store.stage} again")


def _prepare(
    config: RunConfig,
    stage: str,
    warms: bool,
    span: ExitStack,
    progress: Progress,
    client: Client,
) -> None:
    """Prepare a cluster for a stage, once it is known that the stage needs it."""
    span.enter_context(name_tasks(client, config.name, stage))
    wait_for_worker(client, find_patience(config), progress.warn)
    facts = describe_cluster(client)
    if stage == "ingest":
        check_memory(facts, *READING)
    else:
        stores = {part: CorpusStore.open(RunLayout(config.output).corpus(part)) for part in PARTS}
        check_memory(facts, *estimate_memory(config, stores, facts.workers))
    if warms and stage != "detect":
        span.enter_context(compile_early(client, choose_rehearsal(config.detection.settle)))


def find_patience(config: RunConfig) -> float:
    """Return how many seconds a job waits while no worker works for it."""
    return PATIENCE if config.cluster is None else config.cluster.patience
