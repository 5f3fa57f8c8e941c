"""Trains the null model of a configuration on its store."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from atd_dask.config.run_config import RunConfig
from atd_dask.distribution.training import (
    Iteration,
    Training,
    Widening,
    choose_best,
    train_restarts,
)
from atd_dask.json_records import JsonObject
from atd_dask.kernels.jit import STORE
from atd_dask.kernels.training import Convergence, CostTerms, OrderRange, OrderRecord
from atd_dask.storage.checkpoints import Checkpoints
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.models import NullModel
from atd_dask.storage.order_checkpoints import OrderCheckpointer

if TYPE_CHECKING:
    from atd_dask.distribution.engine.clients import Client
    from atd_dask.progress import Progress


def train_null_model(
    config: RunConfig,
    store: CorpusStore,
    settings: JsonObject,
    client: Client | None,
    checkpoints: Checkpoints,
    progress: Progress,
) -> NullModel:
    """Return the model with the least BIC of all restarts; `settings` are stored with it."""
    topics = config.null_model.topics
    authors = config.compatibility == "authors"
    orders = OrderRange(topics.max, topics.min, topics.step, _limit_orders(config), every=authors)
    training = Training(
        store.without_copies(),
        orders,
        Convergence(config.null_model.tolerance, config.null_model.max_iterations),
        config.seed,
        CostTerms(
            authors=authors,
            lda=config.null_model.topic_model == "lda",
        ),
    )
    n_all = config.null_model.restarts * orders.count()
    unit = "number of topics" if n_all == 1 else "numbers of topics"
    with progress.task("train", n_all, unit, STORE.is_compiling) as task:

        def on_progress(restart: int, done: OrderRecord | Iteration | Widening) -> None:
            if isinstance(done, Widening):
                more = replace(orders, max=done.most, min=done.tried)
                task.total = (task.total or 0) + more.count()
                progress.say(
                    f"the best number of topics, {done.best}, is at the end of those up to"
                    f" {done.tried}: trying up to {done.most}",
                    restart=restart + 1,
                )
                return
            # How many orders are tried next to the best one is not known beforehand.
            task.total = max(task.total or 0, task.done + 1)
            iteration = done.iterations if isinstance(done, OrderRecord) else done.iteration
            task.advance(
                1 if isinstance(done, OrderRecord) else 0,
                restart=restart + 1,
                topics=done.n_topics,
                iteration=iteration,
                bic=f"{done.bic:,.1f}",
            )

        selections = train_restarts(
            training,
            config.null_model.restarts,
            client,
            OrderCheckpointer(checkpoints),
            on_progress,
        )
        # Reports of the last orders may not have arrived yet, and resumed orders are not reported.
        task.total = sum(len({record.n_topics for record in s.records}) for s in selections)
        task.reach(task.total)
    return NullModel(
        choose_best(selections),
        store.vocabulary,
        tuple(search.records for search in selections),
        settings,
        store.digest,
    )


def _limit_orders(config: RunConfig) -> int | None:
    """Return how far the range of orders may be widened; None if it is fixed."""
    topics = config.null_model.topics
    fixed = topics.min == topics.max or config.compatibility == "authors"
    return topics.limit if topics.widen and not fixed else None
