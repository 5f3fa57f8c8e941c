"""Counts words on the cluster, a task for each shard; results come in the order of the shards.

A large file of lines is read in ranges, by a task for each. What a range contains is known soon,
and with it the lines that begin in it; another task counts them where the range was read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from atd_dask.distribution.engine.counters import count
from atd_dask.distribution.engine.runner import Runner
from atd_dask.distribution.spooling import PieceSummary, summarise
from atd_dask.documents import Shard
from atd_dask.text.counting import WordCounts, count_shard
from atd_dask.text.options import Source, TextOptions
from atd_dask.text.readers.contents import Contents
from atd_dask.text.readers.jsonl import CutLines, WholeFile
from atd_dask.text.readers.ranges import FileRange, RangeContent, cut_lines, look_at_range

if TYPE_CHECKING:
    from atd_dask.distribution.engine.clients import Client
    from atd_dask.text.readers import Piece


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
) -> Iterator[tuple[Any, PieceSummary]]:
    """Count every shard and leave the counts where they are made; yield their handles, and what a
    spool has to know of them, in order."""
    rows = ((shard,) for shard in shards)
    return runner.hold_each(hold_shard, summarise, (options, keep_text), rows)


def hold_files(
    runner: Runner,
    pieces: Iterable[Piece],
    source: Source,
    options: TextOptions,
    contents: Contents,
    *,
    keep_text: bool = False,
) -> Iterator[tuple[Any, PieceSummary]]:
    """Like `hold_shards`, for what makes up the files of a source. They are read once, and
    `contents` is told what they contain."""
    with closing(_read_ranges(runner, pieces, source, options, contents)) as rows:
        for handle, summary in runner.hold_each(hold_shard, summarise, (options, keep_text), rows):
            if summary.seen is not None:
                contents.add(*summary.seen)
            yield handle, summary


def _read_ranges(
    runner: Runner,
    pieces: Iterable[Piece],
    source: Source,
    options: TextOptions,
    contents: Contents,
) -> Generator[tuple[Any, Any], None, None]:
    """Have ranges read. Yield what is to be counted: shards, and lines with the handle of the range
    in which they begin."""
    for are_ranges, some in groupby(pieces, lambda piece: isinstance(piece, FileRange)):
        if not are_ranges:
            yield from ((shard, None) for shard in some)
            continue
        with closing(_look_at_ranges(runner, some, contents)) as ranges:
            for cut, handle in cut_lines(ranges, options.max_bytes):
                yield CutLines(cut, source, options.max_bytes), handle


def _look_at_ranges(
    runner: Runner, ranges: Iterator[Any], contents: Contents
) -> Generator[tuple[FileRange, Any, RangeContent], None, None]:
    asked: deque[FileRange] = deque()

    def ask() -> Iterator[tuple[FileRange]]:
        for given in ranges:
            asked.append(given)
            yield (given,)

    # Before anything is counted: what a range contains has to be known for those that follow it.
    # Lines are counted where their range is.
    rows = ask()
    with closing(
        runner.hold_each(read_range, look_at_range, None, rows, priority=2, spread=True)
    ) as held:
        for handle, found in held:
            given = asked.popleft()
            contents.add(given.file.name, found.content)
            yield given, handle, found


def read_range(_: None, given: FileRange) -> bytes:
    return given.read()


def ingest_shard(given: tuple[TextOptions, bool], shard: Shard) -> WordCounts:
    options, keep_text = given
    counts = count_shard(shard, options, keep_text)
    count(documents_ingested=len(counts.batch))
    return counts


def hold_shard(
    given: tuple[TextOptions, bool], piece: Shard | WholeFile | CutLines, data: bytes | None = None
) -> WordCounts:
    """Count a shard; `data` are the bytes of the range in which its lines begin."""
    seen = None
    if isinstance(piece, WholeFile):
        shard: Shard
        shard, content = piece.load()
        seen = piece.range.file.name, content
    else:
        shard = piece.take(data or b"") if isinstance(piece, CutLines) else piece
    counts = ingest_shard(given, shard)
    return replace(counts, batch=counts.batch.pack(), seen=seen)
