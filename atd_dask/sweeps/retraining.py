"""The null model of sweeps: the first one, when the next is due, and what it is trained on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from atd_dask.config.rules import rules_of
from atd_dask.config.run_config import RunConfig
from atd_dask.config.sweep_config import SweepConfig
from atd_dask.distribution.engine.runner import Runner
from atd_dask.distribution.search_space import fit_corpus
from atd_dask.kernels.streams import open_stream
from atd_dask.stages.storing import choose_vocabulary, look_for_copies, store_parts
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.models import read_model
from atd_dask.storage.run_layout import RunLayout
from atd_dask.storage.stage_notes import (
    CorpusSummary,
    describe_corpus,
    load_corpus,
    reuse_or_make,
    stage_key,
)
from atd_dask.sweeps.assembly import Assembly, Mask, gather
from atd_dask.sweeps.state import SweepState

if TYPE_CHECKING:
    from atd_dask.distribution.engine.clients import Client
    from atd_dask.progress import Progress

FIRST = "the first one"


def model_config(config: RunConfig, generation: int) -> RunConfig:
    """Return the configuration of the run that makes a null model; its folder has the model and its
    training documents."""
    return replace(
        config,
        output=RunLayout(config.output).model_run(generation).folder,
        corpus=replace(config.corpus, test=None),
    )


def batch_store(config: RunConfig, sweep: int) -> CorpusStore:
    """Return the store of a sweep's new documents."""
    return CorpusStore.open(RunLayout(config.output).sweep(sweep).corpus("new"))


def find_reason(sweep: SweepConfig, state: SweepState) -> str | None:
    """Return why the null model must be retrained before the next sweep, or None.

    Drift is judged by the new documents of as many sweeps as are tested together.
    """
    rule, model = sweep.retrain, state.model
    assert model is not None
    last_useful = state.sweep - sweep.window  # later documents are still being tested
    if last_useful < model.since:
        return None  # there is nothing new to learn from
    if len(state.drift) >= rule.age:
        return f"it has been used for {len(state.drift)} sweeps"
    told = [drift.sweep for drift in state.drift if drift.words and drift.sweep <= last_useful]
    if len(told) >= rule.drift:
        return f"normal topics took up new words in {len(told)} sweeps that it can learn from"
    recent = state.drift[-(sweep.window + 1) :]
    if len(recent) <= sweep.window:
        return None
    tokens = sum(drift.tokens + drift.unseen_tokens for drift in recent)
    share = sum(drift.unseen_tokens for drift in recent) / max(tokens, 1)
    if share > model.unseen_share + rule.unseen:
        return (
            f"{share:.1%} of the words of new documents are not in the vocabulary, against"
            f" {model.unseen_share:.1%} when it was trained"
        )
    fits = [(drift.tokens, drift.log_likelihood) for drift in recent]
    known = [(tokens, value) for tokens, value in fits if value is not None]
    mean = sum(n * value for n, value in known) / max(sum(n for n, _ in known), 1)
    if known and mean < model.log_likelihood - rule.likelihood:
        return (
            f"the log-likelihood per word of new documents is {mean:.3f}, against"
            f" {model.log_likelihood:.3f} when it was trained"
        )
    return None


def measure_model(model_run: RunConfig, client: Client) -> tuple[float, float]:
    """Return the share of words outside the vocabulary, and the log-likelihood of a word, in
    documents that the model was not trained on."""
    store = CorpusStore.open(RunLayout(model_run.output).corpus("validation"))
    n_unseen = int(store.unseen().sum())
    fitter = rules_of(model_run).fitter(read_model(RunLayout(model_run.output).model).table)
    _, fit = fit_corpus(Runner(client), store, fitter)
    n_known = max(int(fit.lengths.sum()), 1)
    return n_unseen / (n_known + n_unseen), float(fit.log_likelihoods.sum()) / n_known


def gather_normal(
    config: RunConfig, model_run: RunConfig, state: SweepState, client: Client, progress: Progress
) -> None:
    """Store the latest documents that are in no reported cluster, and no longer being tested."""
    assert state.model is not None
    first = model_config(config, 1)
    begin = [
        CorpusStore.open(RunLayout(first.output).corpus(part)) for part in ("train", "validation")
    ]
    n_first = sum(store.n_docs for store in begin)
    wanted = config.sweep.retrain.documents or n_first
    sweeps = range(1, state.sweep - config.sweep.window + 1)
    stores: list[CorpusStore] = []
    for sweep in reversed(sweeps):
        if sum(store.n_docs for store in stores) >= wanted:
            break
        stores.insert(0, batch_store(config, sweep))
    if sum(store.n_docs for store in stores) < wanted:
        stores = begin + stores
    dismissed = config.sweep.dismissed
    reported = {id for c in state.clusters if c.number not in dismissed for id in c.documents}
    key = stage_key(
        [store.digest for store in stores],
        sorted(reported),
        wanted,
        config.corpus.validation_share,
        config.corpus.copies,
    )

    def make() -> CorpusSummary:
        dates = [found for store in stores if (found := store.dates()) is not None]
        ids = [store.ids() for store in stores]
        dated = dates if len(dates) == len(stores) else None
        keep = choose_latest(ids, reported, wanted, dated)
        with ExitStack() as scratch:
            normal = Assembly.of(stores, keep)
            documents = scratch.enter_context(closing(gather(normal.pieces())))
            share = begin[1].n_docs / max(n_first, 1)
            aside = np.zeros(documents.n_docs, dtype=np.bool_)
            stream = open_stream(config.seed, f"validation/{model_run.output.rpartition('/')[2]}")
            order = stream.permutation(documents.n_docs)
            aside[order[: round(share * documents.n_docs)]] = True
            divided = documents.divide([~aside, aside])
            parts = dict(zip(("train", "validation"), divided, strict=True))
            for part in divided:
                scratch.enter_context(closing(part))
            vocabulary = choose_vocabulary(config, parts["train"])
            find = partial(look_for_copies, config, parts, progress)
            has_copies = config.corpus.copies != "keep"
            return store_parts(model_run, parts, vocabulary, progress, find, has_copies=has_copies)

    layout = RunLayout(model_run.output)
    reuse_or_make(
        layout,
        "ingest",
        key,
        partial(load_corpus, layout),
        make,
        partial(describe_corpus, layout),
        progress.warn,
    )


def choose_latest(
    ids: Sequence[Sequence[str]],
    reported: set[str],
    wanted: int,
    dates: Sequence[NDArray[np.int64]] | None = None,
) -> list[Mask]:
    """Choose documents of each store: the latest with each id, in no reported cluster, and of these
    the last ones, as many as wanted. The last are those that arrived last, or those with the latest
    dates if all stores have `dates`."""
    keep = [np.zeros(len(some), dtype=np.bool_) for some in ids]
    stores = np.repeat(np.arange(len(ids)), [len(some) for some in ids])
    rows = np.concatenate([np.zeros(0, np.int64), *(np.arange(len(some)) for some in ids)])
    order = np.arange(len(rows))
    if dates is not None:
        order = np.argsort(np.concatenate(dates), kind="stable")
    seen = set(reported)
    for store, row in zip(stores[order[::-1]].tolist(), rows[order[::-1]].tolist(), strict=True):
        if wanted == 0:
            break
        if ids[store][row] not in seen:
            seen.add(ids[store][row])
            keep[store][row] = True
            wanted -= 1
    return keep
