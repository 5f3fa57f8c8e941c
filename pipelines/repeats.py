"""Detection, made once or repeated with other seeds.

The seed of a null model may decide between a cluster and none. So each repeat trains a null model
and detects with a seed of its own: the seed of the run, the next one, and so on. A repeat is what
that seed would give alone on the same stores, and can be looked at as such in `repeats/`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from atd_dask.config.rules import rules_of
from atd_dask.config.run_config import RunConfig
from atd_dask.distribution.engine.counters import count
from atd_dask.distribution.engine.runner import Runner
from atd_dask.evaluation.repeats import combine_results
from atd_dask.evaluation.results import FORMAT, evaluate_clusters
from atd_dask.pipelines.detect import detect, open_batch, write_result
from atd_dask.pipelines.ingest import PARTS, corpus_path
from atd_dask.pipelines.report import read_wording
from atd_dask.pipelines.train import model_path, train
from atd_dask.stages.score_file import keep_scores
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.models import read_model
from atd_dask.storage.runs import read_result, repeat_folders
from atd_dask.storage.stages import finish_stage, finished_stage, stage_key

if TYPE_CHECKING:
    from distributed import Client

    from atd_dask.progress import Progress


def detect_repeatedly(
    config: RunConfig, client: Client, progress: Progress, fresh: bool = False
) -> dict[str, Any]:
    """Finds and tests the clusters of the test batch as often as `config` says; gives what
    result.json says. Every repeat that is finished is reused."""
    n = config.detection.repeats
    if n == 1:
        once: dict[str, Any] = detect(config, client, progress, fresh)
        return once
    seeds = range(config.seed, config.seed + n)
    results = []
    for repeat, seed in enumerate(seeds, 1):
        progress.say(f"repeat {repeat} of {n}", seed=seed)
        mine, folders = replace(config, seed=seed), repeat_folders(config.output, repeat)
        if repeat > 1:
            train(mine, client, progress, fresh, folders)
        results.append(detect(mine, client, progress, fresh, folders))
    key = stage_key(FORMAT, "repeats", results)
    done = None if fresh else finished_stage(config.output, "detect", key)
    kept = read_result(config.output) if done is not None else None
    if kept is not None and "repeats" in kept:
        progress.say("the result of all repeats is up to date")
        return kept
    result = combine_results(results, seeds, config.detection.significance.level)
    stores = {part: CorpusStore.open(corpus_path(config, part)) for part in PARTS}
    test = stores["test"]
    if config.evaluation.anomalous:
        anomalous = config.evaluation.anomalous
        result["evaluation"] = evaluate_clusters(result["clusters"], test.labels(), anomalous)
    wording = read_wording(config.output, result, test)
    write_result(config.output, result, wording.passages)
    rules, runner = rules_of(config), Runner(client)
    batch = open_batch(runner, stores, read_model(model_path(config)), rules)
    keep_scores(config.output, runner, stores, batch, rules, result)
    finish_stage(config.output, "detect", key, {"clusters": len(result["clusters"])})
    count(alarms=sum(cluster["significant"] for cluster in result["clusters"]))
    return result
