"""The readers, a module for each raw format, imported on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from atd_dask.errors import InputError
from atd_dask.text.options import Source, TextOptions

if TYPE_CHECKING:
    from atd_dask.documents import Shard
    from atd_dask.text.readers.contents import Contents
    from atd_dask.text.readers.counted import CountedCorpus
    from atd_dask.text.readers.files import File
    from atd_dask.text.readers.jsonl import WholeFile
    from atd_dask.text.readers.ranges import FileRange

    # A part of a file that is there, or that somebody has to read.
    Piece: TypeAlias = Shard | WholeFile | FileRange

TEXT_FORMATS = frozenset({"csv", "jsonl", "newsgroups", "parquet", "reuters", "text", "tsv"})
COUNT_FORMATS = frozenset({"ldac", "npz"})
# Formats whose files are read once by ingest, and hashed on the way.
ONCE_FORMATS = frozenset({"csv", "jsonl", "tsv"})
# Formats whose files can be read independently of each other.
FILE_FORMATS = frozenset({"csv", "jsonl", "parquet", "text", "tsv"})


def shards(
    source: Source, options: TextOptions, wanted: Callable[[File], bool] | None = None
) -> Iterator[Shard]:
    """Yield the shards of a raw corpus lazily, in a fixed order.

    A shard refers to a part of a file if that can be read by itself, and otherwise carries a few
    megabytes of data. An unusable record becomes `Skipped`, with the reason and the location; an
    unusable file raises `InputError`. Bytes that are invalid in the source's encoding become
    U+FFFD, which ends a word; no document is dropped because of them. Files for which `wanted` is
    false are left out; it is called right before a file is read.
    """
    if source.format not in TEXT_FORMATS:
        raise _unknown(source, TEXT_FORMATS)
    from atd_dask.text.readers.records import check_encoding

    check_encoding(source)
    choice = {} if wanted is None else {"wanted": wanted}
    return _find_reader(source.format)(source, _path(source), options, **choice)


def pieces(source: Source, options: TextOptions, contents: Contents) -> Iterator[Piece]:
    """Yield what makes up the files of a source of one of `ONCE_FORMATS`: shards, and where to read
    those files that somebody else is to read. `contents` is told of all files, and what those
    contain that are read here."""
    from atd_dask.text.readers.records import check_encoding

    check_encoding(source)
    if source.format == "jsonl":
        from atd_dask.text.readers import jsonl

        return jsonl.pieces(source, _path(source), options, contents)
    from atd_dask.text.readers import tables

    return tables.shards(source, _path(source), options, contents=contents)


def find_endings(source: Source) -> tuple[str, ...]:
    """Return how the files of a folder end that are read as one of `ONCE_FORMATS`."""
    if source.format == "jsonl":
        from atd_dask.text.readers import jsonl

        return jsonl.ENDINGS
    from atd_dask.text.readers import tables

    return tables.find_endings(source)


def _find_reader(format: str) -> Callable[..., Iterator[Shard]]:
    """Import the module of a text format, and return its `shards`."""
    match format:
        case "csv" | "tsv":
            from atd_dask.text.readers import tables

            return tables.shards
        case "jsonl":
            from atd_dask.text.readers import jsonl

            return jsonl.shards
        case "newsgroups":
            from atd_dask.text.readers import newsgroups

            return newsgroups.shards
        case "parquet":
            from atd_dask.text.readers import parquet

            return parquet.shards
        case "reuters":
            from atd_dask.text.readers import reuters

            return reuters.shards
        case "text":
            from atd_dask.text.readers import folder

            return folder.shards
    raise AssertionError(f"{format} is in TEXT_FORMATS but has no reader")


def check_fields(source: Source, options: TextOptions) -> None:
    """Check that the fields that a source names exist. Tables are checked by their header when they
    are read; JSON lines in advance, because each line has its own fields."""
    if source.format == "jsonl":
        from atd_dask.text.readers import jsonl, records

        records.check_encoding(source)
        records.check_fields(jsonl.read_records(_path(source), source, options), source)


def counts(source: Source) -> CountedCorpus:
    """Open a corpus of counts."""
    if source.format not in COUNT_FORMATS:
        raise _unknown(source, COUNT_FORMATS)
    from atd_dask.text.readers.records import check_encoding

    check_encoding(source)
    if source.format == "ldac":
        from atd_dask.text.readers import ldac

        return ldac.open_corpus(source, _path(source))
    from atd_dask.text.readers import npz

    return npz.open_corpus(source, _path(source))


def _path(source: Source) -> str:
    if not source.path:
        raise InputError(f"a source of format {source.format} must have a path, got none")
    return source.path


def _unknown(source: Source, known: frozenset[str]) -> InputError:
    return InputError(f"format must be one of {', '.join(sorted(known))}, got {source.format!r}")
