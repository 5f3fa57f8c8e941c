"""Writes a corpus store batch by batch, in memory that does not grow with the corpus."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from atd_dask.documents import NO_DATE, Copies, CountBatch
from atd_dask.errors import InputError
from atd_dask.json_records import JsonObject
from atd_dask.kernels.blocks import BLOCK_DOCUMENTS, BLOCK_ENTRIES, BlockCutter
from atd_dask.storage.corpus import FORMAT, LABEL_SEPARATOR
from atd_dask.storage.groups import TEXT, ChunkWriter, GroupWriter
from atd_dask.storage.manifest import ArrayRecord

# Fixed by the format, so that every machine writes the same bytes.
CHUNK_ENTRIES = 2**17
CHUNK_DOCUMENTS = 2**14
CHUNK_TEXTS = 2**12

_INT32 = np.dtype(np.int32)
_INT64 = np.dtype(np.int64)
_UINT8 = np.dtype(np.uint8)
_INT32_MAX = np.iinfo(np.int32).max

_DICT = {"encoding-type": "dict", "encoding-version": "0.1.0"}
_ARRAY = {"encoding-type": "array", "encoding-version": "0.2.0"}
_STRINGS = {"encoding-type": "string-array", "encoding-version": "0.2.0"}
_STRING = {"encoding-type": "string", "encoding-version": "0.2.0"}


# The large arrays.
NAMES = ("obs/id", "obs/labels")
ENTRIES = ("X/data", "X/indices")
UNSEEN = ("obsm/unseen/data", "obsm/unseen/indices")


def _list_arrays() -> dict[str, tuple[np.dtype[Any], int, JsonObject]]:
    """Return the large arrays: type, length of a chunk, attributes."""
    return {
        **dict.fromkeys(NAMES, (TEXT, CHUNK_TEXTS, _STRINGS)),
        **dict.fromkeys((*ENTRIES, *UNSEEN), (_INT32, CHUNK_ENTRIES, {})),
    }


def _frame(index: str, columns: list[str]) -> JsonObject:
    return {
        "column-order": columns,
        "_index": index,
        "encoding-type": "dataframe",
        "encoding-version": "0.2.0",
    }


@dataclass(frozen=True, slots=True)
class RowNumbers:
    """The numbers of some documents that a store keeps beside their counts."""

    lengths: NDArray[np.int64]  # tokens of the vocabulary
    unseen_lengths: NDArray[np.int64]  # tokens outside it
    entries: NDArray[np.int64]  # distinct words of the vocabulary
    unseen_entries: NDArray[np.int64]
    dates: NDArray[np.int64] | None


@dataclass(frozen=True, slots=True)
class Rows:
    """Documents that are fit to be stored: what they bring to each of the large arrays, by its
    path, and their numbers."""

    values: Mapping[str, NDArray[Any]]
    numbers: RowNumbers

    def __sizeof__(self) -> int:
        return sum(values.nbytes for values in self.values.values())

    @classmethod
    def check(cls, known: CountBatch, unseen: CountBatch, n_words: int, n_unseen: int) -> Rows:
        """Refuse documents that no store can hold. `known` has their counts of words of the
        vocabulary, `unseen` of words outside it."""
        n_docs = len(known)
        if len(known.labels) != n_docs:
            raise InputError(f"a batch of {n_docs} documents has labels for {len(known.labels)}")
        lengths = _check_counts(known, n_docs, n_words, "word", known.ids)
        unseen_lengths = _check_counts(unseen, n_docs, n_unseen, "unseen word", known.ids)
        ids = _as_text(known.ids, "id")
        labels = _as_text([_join(labels) for labels in known.labels], "label")
        values = (ids, labels, known.counts, known.terms, unseen.counts, unseen.terms)
        sizes, unseen_sizes = np.diff(known.indptr), np.diff(unseen.indptr)
        return cls(
            dict(zip((*NAMES, *ENTRIES, *UNSEEN), values, strict=True)),
            RowNumbers(lengths, unseen_lengths, sizes, unseen_sizes, known.dates),
        )


class CorpusWriter:
    """Writes a corpus store, which replaces an older one when the `with` block succeeds.

    If the block fails, nothing of it remains and the older store stays. The same documents, words
    and attributes give the same bytes, however the documents are cut into batches.

    `attributes` may be changed until the end of the block; they must be JSON values, and equal runs
    must set equal ones. `copies` are the near-duplicates among all documents, if anybody looked for
    them, or a function that returns them at the end of the block. Dates are kept if `dated` is
    true.
    """

    def __init__(
        self,
        url: str | os.PathLike[str],
        vocabulary: Sequence[str],
        unseen_words: Sequence[str] = (),
        attributes: JsonObject | None = None,
        copies: Copies | Callable[[], Copies] | None = None,
        *,
        dated: bool = False,
        block_entries: int = BLOCK_ENTRIES,
        block_documents: int = BLOCK_DOCUMENTS,
    ) -> None:
        self.attributes = dict(attributes or {})
        self._words = _as_words(vocabulary, "vocabulary")
        self._unseen_words = _as_words(unseen_words, "unseen words")
        self._copies = copies
        self._dated = dated
        self._n_dated = 0
        self._group = GroupWriter(url, FORMAT)
        self._blocks = BlockCutter(block_entries, block_documents)
        self._n_docs = 0
        self._n_tokens = 0

    def __enter__(self) -> Self:
        self._group.__enter__()
        try:
            self._begin()
        except BaseException:
            self._group.__exit__(None, None, None)
            raise
        return self

    def _begin(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        group = self._group
        group.group("", {"encoding-type": "anndata", "encoding-version": "0.1.0"})
        for path in ("layers", "obsm", "obsp", "uns", "varm", "varp"):
            group.group(path, _DICT)
        columns = ["labels", "length", "unseen"]
        if self._copies is not None:
            columns += ["copy_of", "in_training"]
        if self._dated:
            columns.append("date")
        group.group("obs", _frame("id", columns))
        group.group("var", _frame("word", []))
        self._lengths = group.stream("obs/length", _INT64, CHUNK_DOCUMENTS, _ARRAY)
        self._unseen_lengths = group.stream("obs/unseen", _INT64, CHUNK_DOCUMENTS, _ARRAY)
        if self._dated:
            self._dates = group.stream("obs/date", _INT64, CHUNK_DOCUMENTS, _ARRAY)
        self._counts = _Csr(group, "X", len(self._words))
        self._unseen = _Csr(group, "obsm/unseen", len(self._unseen_words))
        self._add_values()
        group.stream("var/word", TEXT, CHUNK_TEXTS, _STRINGS).append(self._words)
        group.stream("uns/unseen_words", TEXT, CHUNK_TEXTS, _STRINGS).append(self._unseen_words)

    def _add_values(self) -> None:
        """Add the arrays that are large: ids, labels and the entries of the matrices."""
        self._values = {
            path: self._group.stream(path, dtype, chunk, attributes)
            for path, (dtype, chunk, attributes) in _list_arrays().items()
        }

    def append(self, batch: CountBatch, unseen: CountBatch | None = None) -> None:
        """Add documents; `unseen` has the counts of unseen words in the same documents."""
        if unseen is None:
            nothing = np.zeros(0, dtype=np.int32)
            unseen = CountBatch(
                batch.ids, batch.labels, np.zeros(len(batch) + 1, np.int64), nothing, nothing
            )
        rows = Rows.check(batch, unseen, len(self._words), len(self._unseen_words))
        for path, values in rows.values.items():
            self._values[path].append(values)
        self.append_numbers(rows.numbers)

    def append_numbers(self, rows: RowNumbers) -> None:
        n_docs = len(rows.lengths)
        self._lengths.append(rows.lengths)
        self._unseen_lengths.append(rows.unseen_lengths)
        if self._dated:
            dates = np.full(n_docs, NO_DATE) if rows.dates is None else rows.dates
            self._dates.append(dates)
            self._n_dated += int(np.count_nonzero(dates != NO_DATE))
        self._blocks.extend(self._n_docs, self._counts.append(rows.entries))
        self._unseen.append(rows.unseen_entries)
        self._n_docs += n_docs
        self._n_tokens += int(rows.lengths.sum())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._finish()
                self._group.seal(self._totals)
        finally:
            self._group.__exit__(kind, error, trace)

    def _finish(self) -> None:
        """Write what is known once all documents are."""
        self._counts.finish(self._n_docs)
        self._unseen.finish(self._n_docs)
        starts = self._blocks.finish(self._n_docs)
        self._group.stream("uns/block_starts", _INT64, CHUNK_DOCUMENTS, _ARRAY).append(starts)
        attributes = json.dumps(self.attributes, sort_keys=True, allow_nan=False)
        self._group.put("uns/attributes", np.array(attributes, dtype=TEXT), _STRING)
        counts = {
            "documents": self._n_docs,
            "words": len(self._words),
            "entries": self._counts.n_entries,
            "tokens": self._n_tokens,
            "blocks": len(starts) - 1,
        }
        if self._copies is not None:
            given = self._copies
            counts["copies"] = self._write_copies(given() if callable(given) else given)
        if self._dated:
            counts["dated"] = self._n_dated
        self._totals = counts

    def _write_copies(self, copies: Copies) -> int:
        """Write the near-duplicates, and return how many there are."""
        copy_of, in_training = _check_copies(copies, self._n_docs)
        self._group.stream("obs/copy_of", _INT64, CHUNK_DOCUMENTS, _ARRAY).append(copy_of)
        self._group.stream("obs/in_training", _UINT8, CHUNK_DOCUMENTS, _ARRAY).append(in_training)
        return int(np.count_nonzero(copy_of >= 0))


class _Csr:
    """A CSR matrix that grows row by row; its entries are written elsewhere."""

    def __init__(self, group: GroupWriter, path: str, n_columns: int) -> None:
        self.n_entries = 0
        self._n_columns = n_columns
        self._group = group.group(
            path, {"encoding-type": "csr_matrix", "encoding-version": "0.1.0"}
        )
        self._indptr = group.stream(f"{path}/indptr", _INT64, CHUNK_DOCUMENTS)
        self._indptr.append([0])

    def append(self, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Add rows of so many entries, and return the number of entries up to and including each of
        them."""
        ends: NDArray[np.int64] = np.cumsum(sizes, dtype=np.int64) + self.n_entries
        self._indptr.append(ends)
        self.n_entries += int(np.sum(sizes))
        return ends

    def finish(self, n_rows: int) -> None:
        self._group.attrs["shape"] = [n_rows, self._n_columns]


class ScatteredCorpusWriter(CorpusWriter):
    """Writes a corpus store whose large arrays are written by others, with the `ChunkWriter`.

    The bytes are those of a `CorpusWriter`. This one is told the numbers of the documents, in order
    (`append_numbers`), and the record of each large array (`close`).
    """

    def _begin(self) -> None:
        self._is_laid_out = self._is_complete = False

    def lay_out(self) -> None:
        """Add all arrays. The large ones may be written before, so this can wait until those who
        write them are busy."""
        if not self._is_laid_out:
            self._is_laid_out = True
            self._lay_out()

    def _add_values(self) -> None:
        for path, (dtype, chunk, attributes) in _list_arrays().items():
            self._group.chunked(path, dtype, chunk, attributes)

    def chunk_writer(self) -> ChunkWriter:
        arrays = {path: (dtype, chunk) for path, (dtype, chunk, _) in _list_arrays().items()}
        return self._group.chunk_writer(arrays)

    def append_numbers(self, rows: RowNumbers) -> None:
        self.lay_out()
        super().append_numbers(rows)

    def complete(self) -> None:
        """Write all but the records of the large arrays, once the numbers of all documents are
        known: so little is left to do at the end."""
        if not self._is_complete:
            self._is_complete = True
            self.lay_out()
            super()._finish()
            self._group.flush()

    def close(self, path: str, record: ArrayRecord) -> None:
        self.lay_out()
        self._group.close(path, record)

    def _finish(self) -> None:
        self.complete()


def _check_counts(
    batch: CountBatch, n_docs: int, n_words: int, what: str, ids: Sequence[str]
) -> NDArray[np.int64]:
    """Check that a batch is a CSR matrix of counts, and return the number of tokens of each
    document."""
    indptr, terms, counts = batch.indptr, batch.terms, batch.counts
    if len(indptr) != n_docs + 1 or len(terms) != len(counts):
        raise InputError(
            f"a batch of {n_docs} documents must have {n_docs + 1} row ends and a count for every "
            f"{what}, got {len(indptr)}, and {len(counts)} for {len(terms)}"
        )
    for values in (indptr, terms, counts):
        if values.dtype.kind not in "iu":
            raise InputError(f"row ends, terms and counts must be integers, got {values.dtype}")
    if indptr[0] != 0 or indptr[-1] != len(terms) or np.any(np.diff(indptr) < 0):
        raise InputError(
            f"the row ends of a batch must ascend from 0 to its {len(terms)} entries, "
            f"got {int(indptr[0])} to {int(indptr[-1])}"
        )

    def refuse(wrong: NDArray[np.bool_], rule: str, values: NDArray[Any]) -> None:
        if wrong.any():
            entry = int(np.argmax(wrong))
            document = ids[int(np.searchsorted(indptr, entry, side="right")) - 1]
            raise InputError(f"{rule}, got {values[entry]} (document {document!r})")

    refuse(
        (terms < 0) | (terms >= n_words),
        f"the number of every {what} must be below {n_words}",
        terms,
    )
    refuse(
        (counts < 1) | (counts > _INT32_MAX),
        f"the count of every {what} must be from 1 to {_INT32_MAX}",
        counts,
    )
    descends = np.zeros(len(terms), dtype=np.bool_)
    descends[1:] = terms[1:] <= terms[:-1]
    descends[indptr[:-1][indptr[:-1] < len(terms)]] = False
    refuse(descends, f"every {what} of a document must occur once and in ascending order", terms)
    sums = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=sums[1:])
    return sums[indptr[1:]] - sums[indptr[:-1]]


def _check_copies(copies: Copies, n_docs: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Check that near-duplicates are of earlier documents that are not near-duplicates
    themselves."""
    copy_of, in_training = copies.copy_of, copies.in_training
    if not len(copy_of) == len(in_training) == n_docs:
        raise InputError(
            f"the copies of {n_docs} documents must be told for each of them, got"
            f" {len(copy_of)} and {len(in_training)}"
        )
    rows = np.flatnonzero(copy_of >= 0)
    wrong = rows[(copy_of[rows] >= rows) | (copy_of[copy_of[rows] % n_docs] >= 0)]
    if len(wrong):
        raise InputError(
            "a copy must belong to an earlier document that is none, got row"
            f" {copy_of[wrong[0]]} for row {wrong[0]}"
        )
    return copy_of, in_training


def _as_words(words: Sequence[str], what: str) -> NDArray[Any]:
    if len(set(words)) != len(words):
        double = next(word for word, times in Counter(words).items() if times > 1)
        raise InputError(f"the {what} must not hold a word twice, got {double!r}")
    return _as_text(words, "word")


def _as_text(texts: Sequence[str], what: str) -> NDArray[Any]:
    try:
        return np.array(texts, dtype=TEXT)
    except UnicodeEncodeError as error:
        raise InputError(
            f"every {what} must be text that UTF-8 can hold, got {error.object!r}"
        ) from error


def _join(labels: tuple[str, ...]) -> str:
    for label in labels:
        if not label or LABEL_SEPARATOR in label:
            raise InputError(f"a label must have a character and no tab, got {label!r}")
    return LABEL_SEPARATOR.join(labels)
