"""Converts a user's documents to a corpus in blocks, and checks them on the way."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from atd_dask.documents import as_rows, name_numbers
from atd_dask.errors import InputError
from atd_dask.estimators.given import list_words
from atd_dask.kernels.blocks import Corpus, MemoryCorpus
from atd_dask.kernels.model import Block
from atd_dask.storage.corpus import CorpusStore

# Errors end with scikit-learn's message for the same mistake in brackets, if it has one: users know
# it, and scikit-learn's tools look for it.


def as_corpus(
    documents: Any, vocabulary: Any, model: str | None = None
) -> tuple[Corpus, tuple[str, ...]]:
    """Convert a user's documents to a corpus in blocks, and return it with its words.

    `model` is the name of the class that was fitted on `vocabulary`, for error messages.
    """
    words = None if vocabulary is None else _check_vocabulary(vocabulary)
    if isinstance(documents, CorpusStore):
        if words not in (None, documents.vocabulary):
            raise InputError(f"the store {documents.url} must have the given words, but has others")
        return documents, documents.vocabulary
    from scipy import sparse

    words = _name_columns(documents, words)
    if hasattr(documents, "to_scipy_sparse"):  # an array of the package sparse
        documents = documents.to_scipy_sparse()
    if isinstance(documents, tuple):
        # SciPy would read a tuple as coordinates.
        documents = list(documents)
    if isinstance(documents, list) and all(isinstance(entry, Mapping) for entry in documents):
        if words is None:
            words = tuple(sorted({str(word) for document in documents for word in document}))
        documents = _count_mappings(documents, words)
    try:
        counts = documents if sparse.issparse(documents) else np.asarray(documents)
        if counts.dtype == object:
            counts = counts.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise _refuse_documents(documents) from error
    try:
        matrix = as_rows(counts)
    except (TypeError, ValueError) as error:
        if sparse.issparse(counts):
            raise InputError(f"a matrix of counts must be valid, but: {error}") from error
        raise _refuse_documents(documents) from error
    if matrix.ndim != 2:
        raise InputError(
            f"a matrix of counts must be documents × words, got {matrix.ndim} axes"
            " (Reshape your data)"
        )
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    _check_counts(matrix)
    n_words = matrix.shape[1]
    if words is None:
        words = _number_columns(n_words)
    if len(words) != n_words:
        known = f"X has {n_words} features, but {model} is expecting {len(words)} features as input"
        raise InputError(
            f"a vocabulary must name the {n_words} columns, got {len(words)} words"
            + (f" ({known})" if model else "")
        )
    block = Block(
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.int32),
        matrix.data.astype(np.int32),
    )
    return MemoryCorpus(block, n_words), words


def _check_vocabulary(vocabulary: Any) -> tuple[str, ...]:
    words = tuple(list_words(vocabulary))
    seen: set[str] = set()
    for word in words:
        if word in seen:
            raise InputError(f"a vocabulary must name each word once, got {word!r} twice")
        seen.add(word)
    return words


def _number_columns(n_words: int) -> tuple[str, ...]:
    """Return names for words that have none."""
    return name_numbers(n_words, "a matrix of counts")


def are_numbers(words: Sequence[str]) -> bool:
    return all(word == str(number) for number, word in enumerate(words))


def _refuse_documents(documents: Any) -> InputError:
    return InputError(
        "documents must be a corpus store, a matrix of counts or a list of mappings from word"
        f" to count, got {type(documents).__name__}"
    )


def _name_columns(documents: Any, words: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Return the columns of a DataFrame as words, and check them against the given words."""
    columns = getattr(documents, "columns", None)
    if columns is None or not all(isinstance(name, str) for name in columns):
        return words
    named = _check_vocabulary(columns)
    if words is None or (len(words) == len(named) and are_numbers(words)):
        return named if words is None else words
    for given, word in zip(named, words, strict=False):
        if given != word:
            raise InputError(
                "the columns of a DataFrame must be the given words in their order,"
                f" got {given!r} for {word!r}"
            )
    return words


def _check_counts(matrix: Any) -> None:
    values = matrix.data
    if values.dtype.kind not in "biuf":
        known = " (Complex data not supported)" if values.dtype.kind == "c" else ""
        raise InputError(f"counts must be numbers, got {values.dtype}{known}")
    # The comparisons are false for NaN.
    valid = (values >= 0) & (values < 2**31) & (values == np.floor(values))
    if not np.all(valid):
        first = int(np.argmin(valid))
        row = int(np.searchsorted(matrix.indptr, first, side="right")) - 1
        value = values[first]
        known = " (Negative values in data)" if value < 0 else ""
        if not math.isfinite(value):
            known = " (Input contains NaN or infinity)"
        raise InputError(
            f"counts must be whole numbers from 0 to {2**31 - 1}, got {value} in row {row}{known}"
        )


def _count_mappings(documents: list[Mapping[str, int]], vocabulary: Sequence[str]) -> Any:
    from scipy import sparse

    number = {word: term for term, word in enumerate(vocabulary)}
    entries: list[tuple[int, int, float]] = []
    for row, document in enumerate(documents):
        for word, count in document.items():
            if not isinstance(count, Real):
                raise InputError(f"counts must be numbers, got {count!r} for {word!r} in row {row}")
            if str(word) in number:
                entries.append((row, number[str(word)], float(count)))
    rows, terms, counts = zip(*entries, strict=True) if entries else ((), (), ())
    shape = (len(documents), len(vocabulary))
    return sparse.coo_array((np.array(counts), (rows, terms)), shape=shape)
