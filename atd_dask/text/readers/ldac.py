"""The lda-c format: a line for each document, `<number of distinct terms> <term>:<count> …`."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise

import fsspec
import numpy as np

from atd_dask.documents import CountBatch
from atd_dask.errors import InputError
from atd_dask.text.options import Source
from atd_dask.text.readers.counted import (
    BATCH_DOCUMENTS,
    BATCH_ENTRIES,
    CountedCorpus,
    Rows,
    make_batches,
    read_vocabulary,
)
from atd_dask.text.readers.files import open_file, read_blocks, split_lines

MAX_LINE_BYTES = 100_000_000

_LARGEST = 2**31 - 1  # of a term or a count in a CountBatch
_BATCH_BYTES = 8 * BATCH_ENTRIES

# The form that is read fast; anything else is read line by line.
_PLAIN = re.compile(rb"(?:[0-9]{1,9}(?: [0-9]{1,9}:[0-9]{1,9})*+\n)*+")
_PAIR = re.compile(rb"([0-9]+):([0-9]+)")
_COLON_TO_BLANK = bytes.maketrans(b":", b" ")


def open_corpus(source: Source, path: str) -> CountedCorpus:
    """Open an lda-c file, plain or as `.gz`; terms may come in any order."""
    vocabulary = read_vocabulary(source)
    n_words = len(vocabulary) if vocabulary is not None else None
    return CountedCorpus(vocabulary, partial(_read_batches, source, path, n_words), path)


def write_ldac(path: str, batches: Iterable[CountBatch]) -> None:
    """Write documents with ascending terms; compressed, and without a time stamp, if the name ends
    in `.gz`."""
    lines = (line for batch in batches for line in _format_lines(batch))
    with fsspec.open(path, "wb") as file:
        if path.lower().endswith(".gz"):
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                packed.writelines(lines)
        else:
            file.writelines(lines)


def _format_lines(batch: CountBatch) -> Iterator[bytes]:
    pairs = [
        f" {term}:{count}"
        for term, count in zip(batch.terms.tolist(), batch.counts.tolist(), strict=True)
    ]
    for start, stop in pairwise(batch.indptr.tolist()):
        yield f"{stop - start}{''.join(pairs[start:stop])}\n".encode("ascii")


def _read_batches(source: Source, path: str, n_words: int | None) -> Iterator[CountBatch]:
    with open_file(path) as file:
        lines = split_lines(read_blocks(file), MAX_LINE_BYTES)
        rows = (
            parse_lines(group, first_line, path, n_words)
            for first_line, group in _group(lines, path)
        )
        yield from make_batches(rows, source, path)


def _group(lines: Iterator[bytes | None], path: str) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the lines of a batch, with the number of the first one."""
    group: list[bytes] = []
    first, size = 1, 0
    for number, line in enumerate(lines, 1):
        if line is None:
            raise _refuse(path, number, f"a line must have at most {MAX_LINE_BYTES} bytes")
        group.append(line)
        size += len(line)
        if len(group) == BATCH_DOCUMENTS or size >= _BATCH_BYTES:
            yield first, group
            group, first, size = [], number + 1, 0
    if group:
        yield first, group


def parse_lines(lines: list[bytes], first_line: int, path: str, n_words: int | None) -> Rows:
    """Return the documents of some lines, with ascending terms. Raises InputError with the number
    of the first line that breaks a rule."""
    text = b"".join(line + b"\n" for line in lines)
    if not _PLAIN.fullmatch(text):
        return _parse_each(lines, first_line, path, n_words)
    numbers = np.fromstring(text.translate(_COLON_TO_BLANK), dtype=np.int64, sep=" ")
    sizes = np.array([line.count(b":") for line in lines], dtype=np.int64)
    heads = np.concatenate(([0], np.cumsum(1 + 2 * sizes)))[:-1]
    indptr = np.concatenate(([0], np.cumsum(sizes)))
    pairs = np.delete(numbers, heads).reshape(-1, 2)
    terms, counts = pairs[:, 0], pairs[:, 1]
    rows = np.repeat(np.arange(len(sizes)), sizes)
    keys = rows * 2**32 + terms
    if np.any(keys[1:] < keys[:-1]):
        order = np.argsort(keys, kind="stable")
        keys, terms, counts = keys[order], terms[order], counts[order]
    if (
        np.array_equal(numbers[heads], sizes)
        and np.all(counts > 0)
        and np.all(keys[1:] > keys[:-1])
        and (n_words is None or np.all(terms < n_words))
    ):
        return indptr, terms.astype(np.int32), counts.astype(np.int32)
    return _parse_each(lines, first_line, path, n_words)


def _parse_each(lines: list[bytes], first_line: int, path: str, n_words: int | None) -> Rows:
    """Do the same as `parse_lines`, slowly: it accepts every valid form, and knows every reason to
    refuse a line."""
    indptr = np.zeros(len(lines) + 1, dtype=np.int64)
    terms: list[int] = []
    counts: list[int] = []
    for row, line in enumerate(lines):
        document = _parse_line(line, first_line + row, path, n_words)
        for term in sorted(document):
            terms.append(term)
            counts.append(document[term])
        indptr[row + 1] = len(terms)
    return indptr, np.array(terms, dtype=np.int32), np.array(counts, dtype=np.int32)


def _parse_line(line: bytes, number: int, path: str, n_words: int | None) -> dict[int, int]:
    head, *pairs = line.split() or [b""]
    if not head.isdigit():
        raise _refuse(path, number, "a line must begin with its number of distinct terms", head)
    document: dict[int, int] = {}
    for pair in pairs:
        match = _PAIR.fullmatch(pair)
        if not match:
            rule = "terms and counts must be whole numbers in the form term:count"
            raise _refuse(path, number, rule, pair)
        if max(map(len, match.groups())) > 10 or max(map(int, match.groups())) > _LARGEST:
            raise _refuse(path, number, f"terms and counts must be at most {_LARGEST}", pair)
        term, count = map(int, match.groups())
        if count == 0:
            raise _refuse(path, number, "a count must be at least 1", pair)
        if n_words is not None and term >= n_words:
            rule = f"a term must be less than the vocabulary's {n_words} words"
            raise _refuse(path, number, rule, pair)
        if term in document:
            raise _refuse(path, number, "a term must occur once in a line", pair)
        document[term] = count
    if head.lstrip(b"0") != (b"%d" % len(document)).lstrip(b"0"):
        rule = f"the number of distinct terms must be {len(document)}, as many as follow"
        raise _refuse(path, number, rule, head)
    return document


def _refuse(path: str, number: int, rule: str, value: bytes | None = None) -> InputError:
    got = "" if value is None else f", got {value[:40].decode('ascii', 'replace')!r}"
    return InputError(f"{path}, line {number}: {rule}{got}")
