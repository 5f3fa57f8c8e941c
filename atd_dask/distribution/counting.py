"""Counting words on the cluster: a task for each shard, the results in the shards' order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from atd_dask.distribution.engine.counters import count
from atd_dask.distribution.engine.keys import task_key
from atd_dask.documents import Shard
from atd_dask.text.counting import WordCounts, count_shard
from atd_dask.text.options import TextOptions

if TYPE_CHECKING:
    from distributed import Client, Future

SHARDS_PER_THREAD = 2


def count_shards(
    client: Client, shards: Iterable[Shard], options: TextOptions, keep_text: bool = False
) -> Iterator[WordCounts]:
    """The counts of every shard, in order; with `keep_text`, the texts too.

    Only a few shards for each thread of the cluster are under way at a time, so neither the raw
    corpus nor its counts are ever held as a whole.
    """
    under_way: deque[Future[WordCounts]] = deque()
    try:
        for number, shard in enumerate(shards):
            key = task_key("count-shard", number)
            under_way.append(
                client.submit(ingest_shard, shard, options, keep_text, key=key, pure=False)
            )
            if len(under_way) >= _places(client):
                yield _take(under_way)
        while under_way:
            yield _take(under_way)
    finally:
        if under_way:
            client.cancel(list(under_way))


def ingest_shard(shard: Shard, options: TextOptions, keep_text: bool) -> WordCounts:
    counts = count_shard(shard, options, keep_text)
    count(documents_ingested=len(counts.batch))
    return counts


def _places(client: Client) -> int:
    threads: int = sum(client.nthreads().values())
    return SHARDS_PER_THREAD * max(threads, 1) + 1


def _take(under_way: deque[Future[WordCounts]]) -> WordCounts:
    future = under_way.popleft()
    try:
        counts: WordCounts = future.result()
    finally:
        future.release()
    return counts
