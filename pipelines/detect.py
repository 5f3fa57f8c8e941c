"""The null model and the test batch become clusters and the result, once or repeatedly.

The seed of a null model may decide between a cluster and none. So each repeat trains and detects
with a seed of its own: the seed of the run, the next one, and so on. A repeat is exactly what its
seed would give alone on the same stores, and is kept as such in `repeats/`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from atd_dask.config.rules import rules_of
from atd_dask.config.run_config import RunConfig, as_dict, as_single
from atd_dask.distribution.calibration import Calibration
from atd_dask.distribution.detection import detect as detect_clusters
from atd_dask.distribution.engine.counters import count
from atd_dask.distribution.engine.runner import Runner
from atd_dask.documents import PARTS
from atd_dask.errors import DamagedStoreError, InputError
from atd_dask.evaluation.repeats import combine_results
from atd_dask.evaluation.results import (
    FORMAT,
    add_written,
    evaluate_result,
    order_candidates,
)
from atd_dask.kernels.jit import STORE
from atd_dask.pipelines.ingest import check_batch_labels
from atd_dask.pipelines.train import train
from atd_dask.result_types import Result
from atd_dask.stages.batches import open_batch
from atd_dask.stages.result_making import (
    make_result,
    warn_of_thin_pool,
    write_result,
)
from atd_dask.stages.score_file import keep_scores
from atd_dask.stages.shown_texts import open_texts, read_wording
from atd_dask.stages.watching import watch_detection
from atd_dask.storage.checkpoints import Checkpoints
from atd_dask.storage.checksums import read_checked, write_checked
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.detection_checkpoints import DetectionCheckpointer
from atd_dask.storage.models import read_digest, read_model
from atd_dask.storage.run_layout import RunLayout
from atd_dask.storage.runs import RunFolders, read_result, repeat_folders, run_folders
from atd_dask.storage.stage_notes import finish_stage, finished_stage, reuse_or_make, stage_key

if TYPE_CHECKING:
    from atd_dask.distribution.engine.clients import Client
    from atd_dask.progress import Progress


def detect(
    config: RunConfig,
    client: Client,
    progress: Progress,
    fresh: bool = False,
    folders: RunFolders | None = None,
) -> Result:
    """Find and test the clusters of the test batch, once. `folders` are those of a repeat.

    A result that was made from the same batch and model in the same way is reused, and an
    interrupted detection is resumed.
    """
    folders = folders or run_folders(config.output)
    stores = {part: CorpusStore.open(RunLayout(config.output).corpus(part)) for part in PARTS}
    check_batch_labels(config)
    settings = {
        "detection": as_single(config.detection),
        "topic_model": config.null_model.topic_model,
        "compatibility": config.compatibility,
        "seed": config.seed,
        "evaluation": as_dict(config.evaluation),
        "name": config.name,
    }
    digests = {part: store.digest for part, store in stores.items()}
    texts = open_texts(config.output, "test")  # the written forms of words come from these
    told = None if texts is None else texts.digest
    model_url = folders.model.model
    key = stage_key(FORMAT, digests, told, read_digest(model_url), settings)
    output = folders.result.folder
    checkpoints = Checkpoints(folders.model.checkpoints("detect"), key)

    def make() -> Result:
        model = read_model(model_url)
        if stores["test"].vocabulary != model.vocabulary:
            raise InputError(f"{stores['test'].url} must have the vocabulary of {model_url}")
        if fresh:
            checkpoints.clear()
        rules = rules_of(config)
        normal = {part: stores[part].without_copies() for part in ("train", "validation")}
        batch = open_batch(Runner(client), stores, model, rules)
        calibration = Calibration(normal, rules, batch.documents.n_docs, config.seed)
        with watch_detection(
            progress, rules.replicates, rules.searches, STORE.is_compiling
        ) as on_progress:
            found = detect_clusters(
                batch.table,
                batch.documents,
                normal,
                rules,
                config.seed,
                client,
                DetectionCheckpointer(checkpoints),
                on_progress,
                calibration,
            )
        found = order_candidates(found)
        repeat = "" if output == config.output else f" of the repeat with seed {config.seed}"
        for index, cluster in enumerate(found, 1):
            warn_of_thin_pool(progress, f"{index}{repeat}", cluster)
        result = make_result(config, stores, model, batch, found)
        wording = read_wording(config.output, result, stores["test"])
        result = add_written(result, wording.forms)
        write_result(output, result, wording.passages)
        keep_scores(output, Runner(client), stores, batch, rules, result)
        return result

    if not fresh:
        _bring_result(folders, key)
    result, reused = reuse_or_make(
        folders.result,
        "detect",
        key,
        lambda note: _load_result(output),
        make,
        _describe_result,
        progress.warn,
        fresh=fresh,
    )
    if reused:
        progress.say("the result is up to date")
        return result
    checkpoints.clear()
    if output == config.output:  # repeats count as one
        count(alarms=len(result.significant))
    return result


def _load_result(output: str, repeated: bool = False) -> Result | None:
    """Return the result of a single detection, or of repeats; None if there is none, or if a file
    next to it is damaged."""
    layout = RunLayout(output)
    for path in (layout.result, layout.documents, layout.scores):
        if read_checked(path) is None:
            raise DamagedStoreError(f"{path} is missing")
    kept = read_result(output)
    return kept if kept is not None and (kept.repeats is not None) == repeated else None


def _describe_result(result: Result) -> dict[str, int]:
    return {"clusters": len(result.clusters)}


def _bring_result(folders: RunFolders, key: str) -> None:
    """Copy a result that was made from the same inputs, if another folder has it."""
    mine = folders.result
    for other in folders.results:
        try:
            done = finished_stage(other.folder, "detect", key)
            if done is None or _load_result(other.folder) is None:
                continue
        except (InputError, DamagedStoreError):  # from an earlier version, or damaged
            continue
        if other != mine:
            for to, path in (
                (mine.result, other.result),
                (mine.documents, other.documents),
                (mine.scores, other.scores),
            ):
                write_checked(to, read_checked(path) or b"")
            finish_stage(mine.folder, "detect", key, done)
        return


def detect_repeatedly(
    config: RunConfig, client: Client, progress: Progress, fresh: bool = False
) -> Result:
    """Find and test the clusters of the test batch as many times as `config` says. Finished repeats
    are reused."""
    n = config.detection.repeats
    if n == 1:
        return detect(config, client, progress, fresh)
    seeds = range(config.seed, config.seed + n)
    results = []
    for repeat, seed in enumerate(seeds, 1):
        progress.say(f"repeat {repeat} of {n}", seed=seed)
        mine, folders = replace(config, seed=seed), repeat_folders(config.output, repeat)
        if repeat > 1:
            train(mine, client, progress, fresh, folders)
        results.append(detect(mine, client, progress, fresh, folders))
    key = stage_key(FORMAT, "repeats", [result.to_json() for result in results])

    def make() -> Result:
        result = combine_results(results, seeds, config.detection.significance.level)
        layout = RunLayout(config.output)
        stores = {part: CorpusStore.open(layout.corpus(part)) for part in PARTS}
        test = stores["test"]
        if config.evaluation.anomalous:
            result = evaluate_result(result, test.labels(), config.evaluation.anomalous)
        wording = read_wording(config.output, result, test)
        write_result(config.output, result, wording.passages)
        rules, runner = rules_of(config), Runner(client)
        batch = open_batch(runner, stores, read_model(layout.model), rules)
        keep_scores(config.output, runner, stores, batch, rules, result)
        return result

    result, reused = reuse_or_make(
        RunLayout(config.output),
        "detect",
        key,
        lambda note: _load_result(config.output, repeated=True),
        make,
        _describe_result,
        progress.warn,
        fresh=fresh,
    )
    if reused:
        progress.say("the result of all repeats is up to date")
    else:
        count(alarms=len(result.significant))
    return result
