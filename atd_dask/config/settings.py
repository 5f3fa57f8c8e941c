"""Settings: dataclass fields whose types are annotated with a rule.

Both the check of a user's YAML (`builder`) and the documentation (`describe_keys`) follow from the
fields, so that they cannot disagree.
"""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import (
    Annotated,
    Any,
    Literal,
    TypeAlias,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from atd_dask.wording import alternatives

_NAMES: dict[Any, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}


@dataclass(frozen=True)
class Rule:
    """The meaning of a setting, and the values it may have."""

    meaning: str
    _: dataclasses.KW_ONLY
    at_least: float | None = None
    more_than: float | None = None
    at_most: float | None = None
    less_than: float | None = None
    choices: tuple[str, ...] = ()
    pattern: str | None = None
    pattern_words: str = ""
    shorthand: tuple[str, ...] = ()  # the keys that a single value for a section sets
    is_input: bool = False  # an existing path, relative to the configuration
    default_words: str = ""  # documents a default that depends on other keys

    def words(self) -> str:
        """Return the limits, in words that follow `must be`."""
        if self.choices:
            return alternatives(self.choices)
        if self.pattern:
            return self.pattern_words
        limits = {
            "at least": self.at_least,
            "more than": self.more_than,
            "at most": self.at_most,
            "less than": self.less_than,
        }
        return " and ".join(f"{words} {x:g}" for words, x in limits.items() if x is not None)

    def allows(self, value: object) -> bool:
        """Return whether a value of the right type is within the limits."""
        if isinstance(value, str):
            if self.choices:
                return value in self.choices
            return self.pattern is None or re.fullmatch(self.pattern, value) is not None
        if isinstance(value, int | float):
            return (
                (self.at_least is None or value >= self.at_least)
                and (self.more_than is None or value > self.more_than)
                and (self.at_most is None or value <= self.at_most)
                and (self.less_than is None or value < self.less_than)
            )
        return True


RuleTable: TypeAlias = Mapping[type, Mapping[str, Rule]]


@dataclass(frozen=True)
class Setting:
    """A field of a dataclass as a user sees it."""

    key: str
    field: dataclasses.Field[Any]
    hint: Any
    rule: Rule

    @property
    def is_required(self) -> bool:
        missing = dataclasses.MISSING
        return self.field.default is missing and self.field.default_factory is missing


def list_settings(cls: type, table: RuleTable) -> list[Setting]:
    """List the settings of a dataclass; `table` has the rules of classes from other packages."""
    hints = _type_hints(cls)
    settings = []
    for field in dataclasses.fields(cls):
        hint = hints[field.name]
        rule = table.get(cls, {}).get(field.name, Rule(""))
        if get_origin(hint) is Annotated:
            hint, rule = get_args(hint)
        settings.append(Setting(key_name(field), field, hint, rule))
    return settings


@cache
def _type_hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)


def key_name(field: dataclasses.Field[Any]) -> str:
    """Return the key of a field, without the trailing underscore that avoids a Python keyword."""
    return field.name.rstrip("_")


def name_type(hint: Any) -> str:
    """Return the name of a type in plain words."""
    hint, words, nullable = split_union(hint)
    if get_origin(hint) is tuple:
        name = "a list"
    else:
        name = _NAMES.get(hint, "a mapping of keys to values")
    return alternatives((name, *words, *(("null",) if nullable else ())))


def split_union(hint: Any) -> tuple[Any, tuple[str, ...], bool]:
    """Return the type in a union, its literal words, and whether null is allowed."""
    if get_origin(hint) not in (Union, types.UnionType):
        return hint, (), False
    words: tuple[str, ...] = ()
    others = []
    for part in get_args(hint):
        if get_origin(part) is Literal:
            words += get_args(part)
        elif part is not types.NoneType:
            others.append(part)
    (only,) = others
    return only, words, types.NoneType in get_args(hint)


@dataclass(frozen=True)
class KeyEntry:
    """A key as the documentation shows it."""

    key: str
    value: str
    default: str
    meaning: str


def describe_keys(cls: type, table: RuleTable, prefix: str = "") -> Iterator[KeyEntry]:
    """Yield every key of a configuration of type `cls`, in order.

    A section that several keys share, such as the three parts of a corpus, is listed once.
    """
    listed: dict[Any, str] = {}
    for item in list_settings(cls, table):
        key = f"{prefix}{item.key}"
        section, _, _ = split_union(item.hint)
        if not dataclasses.is_dataclass(section):
            yield KeyEntry(key, _show_value(item), _show_default(item), item.rule.meaning)
        elif section in listed:
            meaning = f"{item.rule.meaning}; keys as in `{listed[section]}`"
            yield KeyEntry(key, "section", "", meaning)
        else:
            yield KeyEntry(key, "section", "", item.rule.meaning)
            listed[section] = key
            yield from describe_keys(cast(type, section), table, f"{key}.")


def _show_value(item: Setting) -> str:
    if item.rule.is_input:
        return "a path or URL"
    words = item.rule.words()
    if item.rule.choices or item.rule.pattern:
        return words
    name = name_type(item.hint)
    return f"{name}, {words}" if words else name


def _show_default(item: Setting) -> str:
    if item.rule.default_words:
        return item.rule.default_words
    if item.is_required:
        return "none, required"
    if item.field.default is dataclasses.MISSING:
        return "`{}`"
    if isinstance(item.field.default, bool):
        return f"`{str(item.field.default).lower()}`"
    if item.field.default is None:
        return "`null`"
    return "`[]`" if item.field.default == () else f"`{item.field.default}`"
