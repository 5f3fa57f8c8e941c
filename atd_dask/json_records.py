"""Records that are written as JSON, and the types of JSON that has no record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache
from types import UnionType
from typing import Any, Self, TypeAlias, get_args, get_origin, get_type_hints

from atd_dask.errors import InputError

# A value to be written as JSON.
Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

# A JSON object as a file has it. Only the code that reads or writes the file knows its keys; what
# other packages need of it is a record.
JsonObject: TypeAlias = dict[str, Any]


def look_up(content: JsonObject, *keys: str) -> Any:
    """Return the value below nested keys, or None if one of them is missing.

    Examples
    --------
    >>> look_up({"corpus": {"test": {"format": "csv"}}}, "corpus", "test", "format")
    'csv'
    >>> look_up({"corpus": None}, "corpus", "test") is None
    True
    """
    value: Any = content
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


OMITTED = {"omitted": True}  # left out of the JSON if it is None


@dataclass(frozen=True)
class JsonRecord:
    """A record that can be written as JSON and read back."""

    def to_json(self) -> JsonObject:
        """Return the fields as plain values, in order."""
        values = ((item, getattr(self, item.name)) for item in fields(self))
        return {
            item.name: _encode(value)
            for item, value in values
            if value is not None or item.metadata != OMITTED
        }

    @classmethod
    def from_json(cls, content: JsonObject) -> Self:
        """Read a record that `to_json` wrote, ignoring unknown keys.

        Raises
        ------
        InputError
            If a field that has no default is missing, or a nested one has the wrong shape.
        """
        decoders, needed = _find_decoders(cls)  # type: ignore[arg-type]  # classes are hashable
        if missing := [name for name in needed if name not in content]:
            raise InputError(f"{cls.__name__} must have {missing[0]}, but the JSON lacks it")
        try:
            given = {
                name: read(content[name]) for name, read in decoders.items() if name in content
            }
        except (AttributeError, TypeError) as error:
            raise InputError(f"{cls.__name__} must have nested fields, but: {error}") from error
        return cls(**given)


def _encode(value: Any) -> Any:
    if isinstance(value, JsonRecord):
        return value.to_json()
    if isinstance(value, tuple):
        return [_encode(one) for one in value]
    if isinstance(value, Mapping):
        return {key: _encode(one) for key, one in value.items()}
    return value


@cache
def _find_decoders(cls: type[Any]) -> tuple[dict[str, Callable[[Any], Any]], list[str]]:
    """Return a decoder for each field, and the fields without a default."""
    hints = get_type_hints(cls)
    decoders = {item.name: _make_decoder(hints[item.name]) for item in fields(cls)}
    return decoders, [item.name for item in fields(cls) if item.default is MISSING]


def _make_decoder(hint: Any) -> Callable[[Any], Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is UnionType:
        (inner,) = (_make_decoder(one) for one in arguments if one is not type(None))
        return lambda value: None if value is None else inner(value)
    if origin is tuple:
        read = _make_decoder(arguments[0])
        return lambda value: tuple(map(read, value))
    if origin is Mapping:
        read = _make_decoder(arguments[1])
        return lambda value: {key: read(one) for key, one in value.items()}
    if isinstance(hint, type) and issubclass(hint, JsonRecord):
        return hint.from_json
    return lambda value: value
