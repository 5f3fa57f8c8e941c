"""Documents passed from Python, written as the sources of a run.

A run reads files. Documents in memory are written to a file, so that a search from Python reads,
counts and finds the same as the command, byte for byte.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from atd_dask.config.inputs import find_input
from atd_dask.documents import as_rows
from atd_dask.errors import InputError
from atd_dask.storage.corpus import CorpusStore

ENDINGS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".zarr": "zarr",
}
KINDS = (
    "a list of strings, a DataFrame or Series, an Arrow table, a Dataset, a Dask bag or DataFrame,"
    " a matrix of counts with vocabulary=, a corpus store, or the path of a file, folder or glob"
)


@dataclass(frozen=True)
class Columns:
    """The columns of a table; text and id default to columns of that name."""

    text: str | None = None
    id: str | None = None
    labels: str | None = None


@dataclass(frozen=True)
class Given:
    """Documents as a source in a configuration, and the kind of table they came in."""

    source: Mapping[str, str]
    backend: Any = None  # as narwhals names it


def write_given(
    documents: Any, name: str, columns: Columns, vocabulary: Any, folder: Path
) -> Given:
    """Return documents as a source, writing those in memory to `folder`."""
    if isinstance(documents, CorpusStore):
        return Given({"format": "zarr", "path": documents.url})
    if isinstance(documents, str | os.PathLike):
        return Given(_find_source(documents, name, columns))
    if _is_matrix(documents):
        return Given(_write_matrix(documents, name, vocabulary, folder))
    if _is_lazy(documents):
        documents = _compute(documents)
    frame, alone = _read_frame(documents, name)
    if frame is not None:
        columns = Columns() if alone else columns
        records = _read_columns(frame.columns, frame.get_column, name, columns)
        return Given(_write_records(records, name, folder), frame.implementation)
    if isinstance(getattr(documents, "column_names", None), list):  # a Dataset
        names = documents.column_names
        records = _read_columns(names, lambda column: documents[column], name, columns)
        return Given(_write_records(records, name, folder))
    if hasattr(documents, "to_pylist"):  # an Arrow array
        documents = documents.to_pylist()
    if not isinstance(documents, Iterable) or isinstance(documents, bytes | Mapping):
        raise InputError(f"{name} must be {KINDS}, got {type(documents).__name__}")
    return Given(_write_records(_read_texts(documents, name), name, folder))


def _is_matrix(documents: Any) -> bool:
    return hasattr(documents, "shape") and len(documents.shape) == 2 and _is_numeric(documents)


def _is_numeric(documents: Any) -> bool:
    return getattr(getattr(documents, "dtype", None), "kind", "") in tuple("biuf")


def _is_lazy(documents: Any) -> bool:
    from dask.base import is_dask_collection

    return bool(is_dask_collection(documents))


def _compute(documents: Any) -> Any:
    """Compute a collection where the user's collections are computed, otherwise on threads: by
    default a bag would start processes, for which a script needs a `__main__` guard."""
    from dask import base

    chosen: Any = base.get_scheduler()  # type: ignore[no-untyped-call]
    return documents.compute(scheduler=chosen or "threads")


def _find_source(path: str | os.PathLike[str], name: str, columns: Columns) -> dict[str, str]:
    """Describe a file or glob, whose format follows from its suffix, or a folder of text files."""
    text = os.fspath(path)
    is_line = text != "" and "\n" not in text
    found, mistake = find_input(text, Path()) if is_line else (text, "a line of text")
    if mistake:
        shown = text if len(text) <= 60 else text[:57] + "..."
        if is_line and "://" in text:
            raise InputError(f"{name} must be {mistake}, got {shown!r}")
        raise InputError(f"{name} must be {KINDS}, got a string that is not a path: {shown!r}")
    ending = "".join(Path(text.removesuffix(".gz").rstrip("/")).suffixes[-1:]).lower()
    kind = ENDINGS.get(ending)
    if kind is None:
        known = ", ".join(ENDINGS)
        if "://" in found or Path(found).is_file():
            raise InputError(
                f"{name} must be a folder or a file that ends in {known}, got {text!r}"
            )
        kind = "text"
    source = {"format": kind, "path": found}
    if kind not in ("text", "zarr"):
        named = {"text_field": columns.text, "id_field": columns.id, "labels_field": columns.labels}
        source |= {key: column for key, column in named.items() if column is not None}
    return source


def _write_matrix(matrix: Any, name: str, vocabulary: Any, folder: Path) -> dict[str, str]:
    from scipy import sparse

    source = {"format": "npz", "path": str(folder / f"{name}.npz")}
    try:
        rows = as_rows(matrix)
    except ValueError as error:
        raise InputError(f"{name} must be a valid matrix of counts, but: {error}") from error
    sparse.save_npz(source["path"], rows)
    if vocabulary is None:
        return source
    words = list_words(vocabulary)
    for word in words:
        if not word or "\n" in word or "\r" in word:
            raise InputError(f"a word of the vocabulary must be one line of text, got {word!r}")
    path = folder / f"{name}-words.txt"
    path.write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    return source | {"vocabulary": str(path)}


def list_words(vocabulary: Any) -> list[str]:
    """Return the words of a sequence or a fitted vectorizer, in the order of the columns."""
    if hasattr(vocabulary, "get_feature_names_out"):
        try:
            vocabulary = vocabulary.get_feature_names_out()
        except ValueError as error:  # what scikit-learn raises if it is not fitted
            raise InputError(
                "a vocabulary must be words or a fitted CountVectorizer, got one that is not"
                " fitted; if a grid search or memory= clones a pipeline, pass the words instead"
            ) from error
    if isinstance(vocabulary, str | Mapping) or not isinstance(vocabulary, Iterable):
        raise InputError(
            "a vocabulary must be a sequence of words in the order of the columns or a fitted"
            f" CountVectorizer, got {type(vocabulary).__name__}"
        )
    return [str(word) for word in vocabulary]


def _read_frame(documents: Any, part: str) -> tuple[Any, bool]:
    """Return a table as a narwhals DataFrame, or None if it is not a table.

    Also return whether it was a single column, which has the texts whatever its name is.
    """
    import narwhals.stable.v1 as nw
    from narwhals.exceptions import DuplicateError

    try:
        frame = nw.from_native(documents, pass_through=True, allow_series=True)
    except DuplicateError as error:
        raise InputError(f"the columns of {part} must have different names") from error
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if isinstance(frame, nw.Series):
        return frame.to_frame(), True
    return (frame if isinstance(frame, nw.DataFrame) else None), False


Record = dict[str, object]


def _read_columns(names: Iterable[Any], read: Any, part: str, columns: Columns) -> Iterator[Record]:
    """Yield the rows of a table as records; those without an id are numbered."""
    by_text = {str(name): name for name in names}  # pandas allows other names, such as numbers
    known = list(by_text)
    chosen = {
        argument: None if column is None else str(column)
        for argument, column in asdict(columns).items()
    }
    if columns.text is None:
        chosen["text"] = known[0] if len(known) == 1 else "text"
    if columns.id is None and "id" in known and chosen["text"] != "id":
        chosen["id"] = "id"
    for argument, column in chosen.items():
        if column is not None and column not in known:
            raise InputError(
                f"{argument}= must name a column of {part}, got {column!r}; there are"
                f" {', '.join(map(repr, known)) or 'none'}"
            )
    read_columns = {
        key: read(by_text[column]) for key, column in chosen.items() if column is not None
    }
    for row, values in enumerate(zip(*read_columns.values(), strict=True)):
        record: Record = dict(zip(read_columns, values, strict=True))
        if _is_missing(record.get("id")):
            record["id"] = str(row)
        _check_text(record["text"], part, row)
        yield record


def _read_texts(documents: Iterable[Any], part: str) -> Iterator[Record]:
    for row, text in enumerate(documents):
        _check_text(text, part, row)
        yield {"id": str(row), "text": text}


def _check_text(text: Any, part: str, row: int) -> None:
    """Check that a text is a string or missing; a run skips and counts missing ones."""
    if not isinstance(text, str) and not _is_missing(text):
        raise InputError(
            f"the documents of {part} must be strings, got {type(text).__name__} in row {row}"
        )


def _is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN or the like."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA
        return True
    except ValueError:  # an array
        return False


def _as_labels(value: Any) -> str | list[str] | None:
    if _is_missing(value):
        return None
    if isinstance(value, Iterable) and not isinstance(value, str):
        return list(map(str, value))
    return str(value)


def _write_records(records: Iterator[Record], name: str, folder: Path) -> dict[str, str]:
    path = folder / f"{name}.jsonl"
    with path.open("w", encoding="ascii") as file:
        for record in records:
            if not isinstance(record["text"], str):
                record["text"] = ""
            record["id"] = str(record["id"])
            if "labels" in record:
                record["labels"] = _as_labels(record["labels"])
            file.write(json.dumps(record) + "\n")
    if not path.stat().st_size:
        raise InputError(f"{name} must have documents, got none")
    return {"format": "jsonl", "path": str(path)}
