"""The training store becomes the null model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from atd_dask.config.run_config import RunConfig, as_dict
from atd_dask.distribution.training import (
    Iteration,
    Training,
    Widening,
    choose_best,
    train_restarts,
)
from atd_dask.errors import AtdError, InputError
from atd_dask.kernels.jit import STORE
from atd_dask.kernels.training import Convergence, CostTerms, OrderRange, OrderRecord
from atd_dask.pipelines.ingest import corpus_path
from atd_dask.storage.checkpoints import Checkpoints
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.files import join
from atd_dask.storage.models import FORMAT, NullModel, read_digest, write_model
from atd_dask.storage.order_checkpoints import SearchKeeper
from atd_dask.storage.runs import RunFolders, run_folders
from atd_dask.storage.stages import finish_stage, finished_stage, stage_key

if TYPE_CHECKING:
    from distributed import Client

    from atd_dask.progress import Progress

MODEL = "null_model.zarr"


def model_path(config: RunConfig) -> str:
    """Where the null model is."""
    return join(config.output, MODEL)


def train(
    config: RunConfig,
    client: Client,
    progress: Progress,
    fresh: bool = False,
    folders: RunFolders | None = None,
) -> dict[str, Any]:
    """Trains the null model of `config` on its training store; gives a summary. `folders` are those
    of a repeat.

    A model that was made from the same store in the same way is left as it is, and a training that
    was cut off goes on.
    """
    folders = folders or run_folders(config.output)
    store = CorpusStore.open(corpus_path(config, "train"))
    settings = {
        "null_model": as_dict(config.null_model),
        "seed": config.seed,
        "compatibility": config.compatibility,
    }
    key = stage_key(FORMAT, store.digest, settings)
    path = join(folders.model, MODEL)
    done = None if fresh else finished_stage(folders.model, "train", key)
    if done is not None and _is_there(path, done["digest"]):
        progress.say("the null model is up to date")
        return done
    if store.n_tokens == 0:
        raise InputError(f"the training documents must have words, but {store.url} has none")
    topics = config.null_model.topics
    training = Training(
        store.without_copies(),
        OrderRange(topics.max, topics.min, topics.step, _limit_orders(config)),
        Convergence(config.null_model.tolerance, config.null_model.max_iterations),
        config.seed,
        CostTerms(
            authors=config.compatibility == "authors",
            lda=config.null_model.topic_model == "lda",
        ),
    )
    checkpoints = Checkpoints(join(folders.model, "checkpoints", "train"), key)
    if fresh:
        checkpoints.clear()
    n_orders = len(range(topics.max, topics.min - 1, -topics.step))
    n_all = config.null_model.restarts * n_orders
    with progress.task("train", n_all, "numbers of topics", STORE.is_compiling) as task:

        def tell(restart: int, done: OrderRecord | Iteration | Widening) -> None:
            if isinstance(done, Widening):
                task.total = (task.total or 0) + len(range(done.most, done.tried, -topics.step))
                progress.say(
                    f"the best number of topics, {done.best}, is at the end of those up to"
                    f" {done.tried}: trying up to {done.most}",
                    restart=restart + 1,
                )
                return
            iteration = done.iterations if isinstance(done, OrderRecord) else done.iteration
            task.advance(
                1 if isinstance(done, OrderRecord) else 0,
                restart=restart + 1,
                topics=done.n_topics,
                iteration=iteration,
                bic=f"{done.bic:,.1f}",
            )

        searches = train_restarts(
            training, config.null_model.restarts, client, SearchKeeper(checkpoints), tell
        )
        # Reports of the last orders may still be on their way, and kept ones are not reported.
        task.reach(sum(len({record.n_topics for record in s.records}) for s in searches))
    best = choose_best(searches)
    model = NullModel(
        best,
        store.vocabulary,
        tuple(search.records for search in searches),
        settings,
        store.digest,
    )
    digest = write_model(path, model)
    summary = {
        "path": path,
        "digest": digest,
        "n_topics": model.record.n_topics,
        "bic": model.record.bic,
        "topics_per_document": model.record.topics_per_document,
        "salient_words_per_topic": model.record.words_per_topic,
    }
    finish_stage(folders.model, "train", key, summary)
    checkpoints.clear()
    return summary


def _limit_orders(config: RunConfig) -> int | None:
    """How far the range of orders may be widened; None where it is fixed."""
    topics = config.null_model.topics
    fixed = topics.min == topics.max or config.compatibility == "authors"
    return topics.limit if topics.widen and not fixed else None


def _is_there(path: str, digest: str) -> bool:
    try:
        return read_digest(path) == digest
    except AtdError:
        return False
