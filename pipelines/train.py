"""The training store becomes the null model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from atd_dask.config.run_config import RunConfig, as_dict
from atd_dask.errors import DamagedStoreError, InputError
from atd_dask.json_records import JsonObject
from atd_dask.stages.null_model import train_null_model
from atd_dask.storage.checkpoints import Checkpoints
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.models import FORMAT, write_model
from atd_dask.storage.run_layout import RunLayout
from atd_dask.storage.runs import RunFolders, run_folders
from atd_dask.storage.stage_notes import ModelSummary, reuse_or_make, stage_key

if TYPE_CHECKING:
    from atd_dask.distribution.engine.clients import Client
    from atd_dask.progress import Progress


def train(
    config: RunConfig,
    client: Client,
    progress: Progress,
    fresh: bool = False,
    folders: RunFolders | None = None,
) -> ModelSummary:
    """Train the null model of `config` on its training store; return a summary. `folders` are those
    of a repeat.

    A model that was made from the same store in the same way is reused, and an interrupted training
    is resumed.
    """
    folders = folders or run_folders(config.output)
    store = CorpusStore.open(RunLayout(config.output).corpus("train"))
    settings = {
        "null_model": as_dict(config.null_model),
        "seed": config.seed,
        "compatibility": config.compatibility,
    }
    key = stage_key(FORMAT, store.digest, settings)
    layout = folders.model
    checkpoints = Checkpoints(layout.checkpoints("train"), key)

    def load(note: JsonObject) -> ModelSummary:
        # The folder may have been moved since the note was written.
        summary = replace(ModelSummary.from_json(note), path=layout.model)
        if not summary.is_whole():
            raise DamagedStoreError(f"{layout.model} is not as it was written")
        return summary

    def describe(summary: ModelSummary) -> JsonObject:
        return replace(summary, path=layout.relative(summary.path)).to_json()

    def make() -> ModelSummary:
        if store.n_tokens == 0:
            raise InputError(f"the training documents must have words, but {store.url} has none")
        if fresh:
            checkpoints.clear()
        model = train_null_model(config, store, settings, client, checkpoints, progress)
        return ModelSummary(
            path=layout.model,
            digest=write_model(layout.model, model),
            n_topics=model.record.n_topics,
            bic=model.record.bic,
            topics_per_document=model.record.topics_per_document,
            salient_words_per_topic=model.record.words_per_topic,
        )

    summary, reused = reuse_or_make(
        layout, "train", key, load, make, describe, progress.warn, fresh=fresh
    )
    if reused:
        progress.say("the null model is up to date")
    else:
        checkpoints.clear()
    return summary
