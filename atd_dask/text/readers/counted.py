"""Corpora of counts, with their label and vocabulary files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from atd_dask.documents import CountBatch
from atd_dask.errors import InputError
from atd_dask.text.options import Source
from atd_dask.text.readers.files import (
    clean_labels,
    clean_text,
    open_file,
    read_blocks,
    split_lines,
)

BATCH_DOCUMENTS = 4096
BATCH_ENTRIES = 2**20

# indptr, terms and counts of some documents, as in a CountBatch
Rows = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]

_MAX_LINE_BYTES = 10_000_000


@dataclass(frozen=True)
class CountedCorpus:
    """Documents as counts. `batches` reads them from the start each time it is called.

    Without a vocabulary the words are the numbers of the terms, and the largest one is known only
    after all documents have been read.
    """

    vocabulary: tuple[str, ...] | None
    batches: Callable[[], Iterator[CountBatch]]
    place: str | None = None  # the file that they come from


def read_vocabulary(source: Source) -> tuple[str, ...] | None:
    """Read the words of the vocabulary file, one per line; return None if there is no file."""
    path = source.vocabulary
    if path is None:
        return None
    lines: dict[str, int] = {}
    for number, word in enumerate(_read_lines(path, source.encoding), 1):
        if not word:
            raise InputError(f"{path}, line {number}: a vocabulary must have a word on each line")
        if (before := lines.setdefault(word, number)) != number:
            raise InputError(
                f"{path}, line {number}: a word must occur once in a vocabulary,"
                f" got {word!r} also on line {before}"
            )
    return tuple(lines)


def make_batches(rows: Iterable[Rows], source: Source, path: str) -> Iterator[CountBatch]:
    """Give rows their ids, counted from 0, and the lines of the label file as labels.

    The label file must have a line for each row.
    """
    lines = _read_lines(source.labels, source.encoding) if source.labels else None
    n_docs = n_labels = 0
    for indptr, terms, counts in rows:
        first, n_docs = n_docs, n_docs + len(indptr) - 1
        ids = [str(row) for row in range(first, n_docs)]
        if lines is None:
            yield CountBatch(ids, [()] * len(ids), indptr, terms, counts)
            continue
        labels = [clean_labels(line.split()) for line in islice(lines, len(ids))]
        n_labels += len(labels)
        if n_labels == n_docs:
            yield CountBatch(ids, labels, indptr, terms, counts)
    if lines is not None:
        n_labels += sum(1 for _ in lines)
        if n_labels != n_docs:
            raise InputError(
                f"{source.labels} must have a line for each of the {n_docs} documents of {path},"
                f" has {n_labels}"
            )


def _read_lines(path: str, encoding: str) -> Iterator[str]:
    with open_file(path) as file:
        for number, line in enumerate(split_lines(read_blocks(file), _MAX_LINE_BYTES), 1):
            if line is None:
                raise InputError(
                    f"{path}, line {number}: a line must have at most {_MAX_LINE_BYTES} bytes"
                )
            text = clean_text(line.decode(encoding, "replace")).strip()
            yield text.removeprefix("\ufeff") if number == 1 else text
