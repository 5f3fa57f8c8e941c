"""Parquet files: a shard for each row group."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from atd_dask.documents import Document, Skipped
from atd_dask.errors import InputError
from atd_dask.text.options import Source, TextOptions
from atd_dask.text.readers.files import File, clean_text, find_files, open_file, want_all
from atd_dask.text.readers.records import TOO_LARGE, check_columns, make_document

ENDINGS = (".parquet", ".pq")

MOST_ROWS = 2**20  # of a row group, unless it has more bytes than that
MOST_UNPACKED = 2**28  # bytes of a row group that may have any compression ratio
MOST_TIMES = 100  # the largest compression ratio of anything larger

_BATCH_ROWS = 1024


@dataclass(frozen=True)
class RowGroup:
    """One row group of one file; `first_row` counts from 1 in the file."""

    file: File
    source: Source
    max_bytes: int
    number: int
    first_row: int

    def read(self) -> Iterator[Document | Skipped]:
        source, row = self.source, self.first_row
        fields = (source.id_field, source.text_field, source.labels_field, source.date_field)
        with _open_parquet(self.file, source.text_field) as parquet:
            columns = [name for name in parquet.schema_arrow.names if name in fields]
            for batch in parquet.iter_batches(
                _BATCH_ROWS, row_groups=[self.number], columns=columns, use_threads=False
            ):
                values = [_values(batch.column(name), source.encoding) for name in columns]
                for record in zip(*values, strict=True):
                    yield self._document(dict(zip(columns, record, strict=True)), row)
                    row += 1

    def _document(self, record: dict[str, object], row: int) -> Document | Skipped:
        location = f"{clean_text(self.file.url)}:{row}"
        text = record[self.source.text_field]
        if isinstance(text, str) and len(text.encode("utf-8", "replace")) > self.max_bytes:
            return Skipped(TOO_LARGE, location)
        return make_document(record, self.source, location, f"{self.file.name}:{row}")


def shards(
    source: Source, path: str, options: TextOptions, wanted: Callable[[File], bool] = want_all
) -> Iterator[RowGroup]:
    """Yield the row groups of every file."""
    for file in filter(wanted, find_files(path, ENDINGS)):
        with open_file(file.url) as stream:
            packed = stream.seek(0, os.SEEK_END)
        with _open_parquet(file) as parquet:
            check_columns(parquet.schema_arrow.names, source, file.url)
            groups = [parquet.metadata.row_group(i) for i in range(parquet.num_row_groups)]
            # Without the metadata of columns: reading it from a damaged file may crash the process.
            sizes = [_check_size(group, n, file, packed) for n, group in enumerate(groups)]
        first_row = 1
        for number, size in enumerate(sizes):
            yield RowGroup(file, source, options.max_bytes, number, first_row)
            first_row += size


@contextmanager
def _open_parquet(file: File, *repeated: str) -> Iterator[Any]:
    """Open a file; in `repeated` columns, equal values share memory."""
    url = clean_text(file.url)
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise InputError(
            f"{url} can be read only with the extra parquet: pip install 'atd-dask[parquet]'"
        ) from error
    try:
        with open_file(file.url) as stream:
            yield ParquetFile(stream, read_dictionary=list(repeated))
    except (ArrowException, UnicodeError) as error:  # a damaged name is not text
        raise InputError(f"{url} must be a whole Parquet file, but is not: {error}") from error


def _check_size(group: Any, number: int, file: File, packed: int) -> int:
    """Return how many rows a group has. A few bytes can say that a value is repeated any number of
    times, and become gigabytes."""
    place = f"{clean_text(file.url)}, row group {number}"
    if group.num_rows > max(MOST_ROWS, group.total_byte_size):
        raise InputError(
            f"{place}: there must be at most {MOST_ROWS} rows, or one for each byte, but"
            f" {group.total_byte_size} bytes say that they are {group.num_rows}"
        )
    if group.total_byte_size > max(MOST_UNPACKED, MOST_TIMES * packed):
        raise InputError(
            f"{place}: it must be at most {MOST_TIMES} times as large as the file when it is"
            f" unpacked, but {packed} bytes become {group.total_byte_size}"
        )
    return int(group.num_rows)


def _values(column: Any, encoding: str) -> list[object]:
    """Return the values of a column. Strings are read as bytes, because nobody has checked that
    they are UTF-8."""
    from pyarrow import ArrowInvalid, binary, list_, types

    if types.is_dictionary(column.type):
        known = _values(column.dictionary, encoding)
        numbers = column.indices.to_pylist()
        if not all(n is None or 0 <= n < len(known) for n in numbers):
            raise ArrowInvalid("a row has a value that is not there")
        return [None if n is None else known[n] for n in numbers]
    if _is_text(column.type):
        column = column.cast(binary())
    elif types.is_list(column.type) and _is_text(column.type.value_type):
        column = column.cast(list_(binary()))
    return [_decode(value, encoding) for value in column.to_pylist()]


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind))


def _decode(value: object, encoding: str) -> object:
    if isinstance(value, bytes):
        return value.decode(encoding, "replace")
    if isinstance(value, list):
        return [_decode(item, encoding) for item in value]
    return value
