"""Counts words on the cluster, a task for each shard; results come in the order of the shards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from atd_dask.distribution.engine.counters import count
from atd_dask.distribution.engine.runner import Runner
from atd_dask.distribution.spooling import PieceSummary, summarise, summarise_and_sign
from atd_dask.documents import Shard
from atd_dask.text.counting import WordCounts, count_shard
from atd_dask.text.options import TextOptions

if TYPE_CHECKING:
    from atd_dask.distribution.engine.clients import Client


def count_shards(
    client: Client | None, shards: Iterable[Shard], options: TextOptions, keep_text: bool = False
) -> Iterator[WordCounts]:
    """Yield the counts of every shard, in order; with `keep_text`, the texts too.

    Only a few shards for each thread of the cluster are under way at a time, so neither the raw
    corpus nor its counts are ever held as a whole.
    """
    return Runner(client).map(ingest_shard, (options, keep_text), shards)


def hold_shards(
    runner: Runner,
    shards: Iterable[Shard],
    options: TextOptions,
    *,
    keep_text: bool = False,
    sign: bool = False,
) -> Iterator[tuple[Any, PieceSummary]]:
    """Count every shard and leave the counts where they are made; yield their handles, and what a
    spool has to know of them, in order. With `sign`, that includes signatures of near-duplicates.
    """
    take = summarise_and_sign if sign else summarise
    return runner.hold_each(hold_shard, take, (options, keep_text), shards)


def ingest_shard(given: tuple[TextOptions, bool], shard: Shard) -> WordCounts:
    options, keep_text = given
    counts = count_shard(shard, options, keep_text)
    count(documents_ingested=len(counts.batch))
    return counts


def hold_shard(given: tuple[TextOptions, bool], shard: Shard) -> WordCounts:
    counts = ingest_shard(given, shard)
    return replace(counts, batch=counts.batch.pack())
