"""Turns a record of named values, from any format, into a document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from atd_dask.documents import Document, Skipped
from atd_dask.errors import InputError
from atd_dask.text.dates import read_date
from atd_dask.text.options import Source
from atd_dask.text.readers.files import clean_text

TOO_LARGE = "larger than corpus.text.max_bytes"

_DEFAULTS = Source(format="")

# The keys that name the fields of a document.
FIELDS = ("text_field", "id_field", "labels_field", "date_field")

# How many fields are listed if one is missing.
MOST_NAMES = 10


def make_document(
    record: Mapping[str, object], source: Source, location: str, fallback_id: str
) -> Document | Skipped:
    """Return the document of a record, or why it is skipped.

    The text must be a string. The id is text or a number; if it is missing, null or empty, the
    document gets `fallback_id`. Labels are a string, split at white space, or a list. A date may be
    missing, null or empty.
    """
    text = record.get(source.text_field)
    if not isinstance(text, str):
        what = "no" if text is None else "no string in"
        return Skipped(f"{what} field {source.text_field}", location)
    name = _id(record.get(source.id_field), fallback_id)
    if name is None:
        return Skipped(f"neither text nor a number in field {source.id_field}", location)
    date = None
    if source.date_field is not None and (given := record.get(source.date_field)) not in (None, ""):
        date = read_date(given)
        if date is None:
            return Skipped(f"no date in field {source.date_field}", location)
    labels = _labels(record.get(source.labels_field))
    if labels is None:
        return Skipped(f"neither text nor a list of text in field {source.labels_field}", location)
    return Document(name, text, labels, date)


def check_columns(names: Sequence[str], source: Source, location: str) -> None:
    """Check that a table has the text column and those that the user named, each only once."""
    for key in FIELDS:
        name = getattr(source, key)
        if name is None:
            continue
        times = list(names).count(name)
        if times > 1:
            raise InputError(f"column {name} ({key}) must occur once in {location}, got {times}")
        if not times and (key == "text_field" or name != getattr(_DEFAULTS, key)):
            columns = list_names(names)
            raise InputError(f"{location} must have the column {name} ({key}), got {columns}")


def check_fields(records: Iterable[Mapping[str, object]], source: Source) -> None:
    """Check that some record has the text field, and those that the user named. Usually the first
    record has them all, and no other is read."""
    wanted = {
        key: name
        for key in FIELDS
        if (name := getattr(source, key)) != getattr(_DEFAULTS, key) or key == "text_field"
    }
    names: dict[str, None] = {}
    for record in records:
        wanted = {key: name for key, name in wanted.items() if name not in record}
        if not wanted:
            return
        if len(names) <= MOST_NAMES:
            names |= dict.fromkeys(record)
    if names:
        key, name = next(iter(wanted.items()))
        raise InputError(
            f"{source.path} must have the field {name} ({key}), but no document has it: their"
            f" fields are {list_names(list(names))}"
        )


def list_names(names: Sequence[str]) -> str:
    """Return the first names of fields, shortened: a file read in the wrong format may have very
    long ones."""
    shown = [name if len(name) <= 40 else f"{name[:39]}…" for name in names[:MOST_NAMES]]
    return clean_text(", ".join(shown)) + (" …" if len(names) > MOST_NAMES else "")


def check_encoding(source: Source) -> None:
    """Check that an encoding leaves ASCII bytes as they are, because lines and columns are found
    before text is decoded."""
    # An escape such as \n is two characters; whatever else comes is replaced, not refused.
    samples = (b"\\n", bytes(range(128)))
    try:
        b"\xff".decode(source.encoding, "replace")
        if all(text.decode(source.encoding) == text.decode("ascii") for text in samples):
            return
    except (LookupError, ValueError):
        pass
    raise InputError(
        "encoding must be one that leaves ASCII as it is, such as utf-8 or latin-1,"
        f" got {source.encoding!r} for {source.path}"
    )


def _id(value: object, fallback: str) -> str | None:
    if value is None or value == "":
        return fallback
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return clean_text(str(value))


def _labels(value: object) -> tuple[str, ...] | None:
    if value is None:
        return ()
    if isinstance(value, str):
        value = value.split()
    if not isinstance(value, list) or any(
        isinstance(label, bool) or not isinstance(label, str | int | float) for label in value
    ):
        return None
    return tuple(clean_text(str(label)) for label in value if label != "")
