"""Builds dataclasses from a user's YAML, and collects every problem on the way."""

from __future__ import annotations

import dataclasses
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar, cast, get_args, get_origin

from atd_dask.config.settings import (
    Rule,
    RuleTable,
    list_settings,
    name_type,
    split_union,
)
from atd_dask.config.yaml_nodes import ListNode, MappingNode, Node, Position, Problems, ScalarNode
from atd_dask.wording import alternatives, nearest, shorten

T = TypeVar("T")

# Makes an input path absolute; if it cannot be used, also returns what it must be.
FindInput: TypeAlias = Callable[[str], tuple[str, str | None]]

# YAML 1.1 reads 1e-4 as text, 010 as eight and 1:30 as ninety, so numbers are matched here.
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9_]*)")
_DECIMAL = re.compile(r"[-+]?([0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?")
_LARGEST = 2**63 - 1
# Where addresses and passwords of others are.
_SECRET = ("cluster.kwargs", "sweep.alert")


class RefusedError(Exception):
    """A value was refused, and the problem noted."""


class Builder:
    """Builds dataclasses from a tree.

    A refused value is replaced by the default of its field, so that everything else can still be
    checked. `rules` has the rules of fields that carry none themselves.
    """

    def __init__(self, problems: Problems, rules: RuleTable, find_input: FindInput) -> None:
        self._problems = problems
        self._rules = rules
        self._find_input = find_input
        self._broken: set[str] = set()

    def note(self, key: str, sentence: str, position: Position) -> None:
        """Note that `key` breaks a rule."""
        self._broken.add(key)
        self._problems.add(f"{key} {sentence}", position)

    def is_broken(self, *keys: str) -> bool:
        """Return whether any of `keys`, or any key below them, has been refused."""
        return any(
            broken == key or broken.startswith(f"{key}.") for broken in self._broken for key in keys
        )

    def build(self, cls: type[T], node: Node, key: str = "") -> T:
        """Build an instance of `cls`. Raises `RefusedError` if a required key is unusable."""
        if isinstance(node, ScalarNode) and node.is_null:
            node = MappingNode(node.position, {})
        if not isinstance(node, MappingNode):
            raise self._refuse(key, name_type(cls), node)
        settings = {item.key: item for item in list_settings(cls, self._rules)}
        for name, below in node.entries.items():
            if name not in settings:
                self._note_unknown(name, below, key, list(settings))
        values: dict[str, object] = {}
        is_complete = True
        for name, item in settings.items():
            dotted = f"{key}.{name}" if key else name
            try:
                if name in node.entries:
                    given = node.entries[name]
                    values[item.field.name] = self._value(item.hint, given, dotted, item.rule)
                elif item.is_required:
                    self.note(dotted, "must be given, got nothing", node.position)
                    is_complete = False
            except RefusedError:
                is_complete = is_complete and not item.is_required
        if not is_complete:
            raise RefusedError
        return cls(**values)

    def _value(self, hint: Any, node: Node, key: str, rule: Rule) -> Any:
        hint, words, nullable = split_union(hint)
        if isinstance(node, ScalarNode):
            if node.is_null and nullable:
                return None
            if node.text in words:
                return node.text
        if dataclasses.is_dataclass(hint):
            if rule.shorthand and isinstance(node, ScalarNode) and not node.is_null:
                return self._expand(cast(type, hint), node, key, rule)
            return self.build(cast(type, hint), node, key)
        if get_origin(hint) is tuple:
            return self._list(hint, node, key, rule)
        if get_origin(hint) is Mapping:
            if not isinstance(node, MappingNode):
                raise self._refuse(key, name_type(hint), node)
            return self._free_value(node, key)
        value = self._scalar(hint, node, key, words)
        if not rule.allows(value):
            raise self._refuse(key, rule.words(), node, words)
        if rule.is_input:
            value, mistake = self._find_input(value)
            if mistake is not None:
                raise self._refuse(key, mistake, node)
        return value

    def _expand(self, cls: type, node: ScalarNode, key: str, rule: Rule) -> Any:
        """Build the section that a single value is shorthand for."""
        settings = {item.key: item for item in list_settings(cls, self._rules)}
        first = settings[rule.shorthand[0]]
        value = self._value(first.hint, node, key, first.rule)
        return cls(**dict.fromkeys(rule.shorthand, value))

    def _list(self, hint: Any, node: Node, key: str, rule: Rule) -> tuple[Any, ...]:
        if not isinstance(node, ListNode):
            raise self._refuse(key, name_type(hint), node)
        item_hint = get_args(hint)[0]
        return tuple(
            self._value(item_hint, item, f"{key}[{number}]", rule)
            for number, item in enumerate(node.items)
        )

    def _scalar(self, hint: type, node: Node, key: str, words: Iterable[str] = ()) -> Any:
        if not isinstance(node, ScalarNode) or not node.is_text:
            raise self._refuse(key, name_type(hint), node, words)
        text = node.text
        if hint is str:
            if not text:
                raise self._refuse(key, "text that is not empty", node)
            if any(unicodedata.category(character) in ("Cc", "Cs") for character in text):
                raise self._refuse(key, "text without control characters", node)
            return text
        if hint is bool:
            if node.kind != "bool":
                raise self._refuse(key, name_type(hint), node)
            return text.lower() in ("true", "yes", "on")
        if node.quoted or not (_WHOLE if hint is int else _DECIMAL).fullmatch(text):
            raise self._refuse(key, name_type(hint), node, words)
        digits = text.replace("_", "")
        if hint is int:
            if len(digits) > 20 or abs(int(digits)) > _LARGEST:
                raise self._refuse(key, f"a whole number of at most {_LARGEST}", node)
            return int(digits)
        number = float(digits)
        if not math.isfinite(number):
            raise self._refuse(key, "a finite number", node)
        return number

    def _free_value(self, node: Node, key: str) -> Any:
        """Return a plain value of any kind; whoever uses it checks it."""
        if isinstance(node, MappingNode):
            return {
                name: self._free_value(below, f"{key}.{name}")
                for name, below in node.entries.items()
            }
        if isinstance(node, ListNode):
            return [
                self._free_value(item, f"{key}[{number}]") for number, item in enumerate(node.items)
            ]
        if node.is_null:
            return None
        if node.kind == "bool":
            return self._scalar(bool, node, key)
        if not node.quoted and _WHOLE.fullmatch(node.text):
            return self._scalar(int, node, key)
        if not node.quoted and _DECIMAL.fullmatch(node.text):
            return self._scalar(float, node, key)
        if not node.is_text:
            raise self._refuse(key, "text, a number, a list or a mapping", node)
        return node.text

    def _refuse(self, key: str, rule: str, node: Node, words: Iterable[str] = ()) -> RefusedError:
        given = "a value that is not shown" if key.startswith(_SECRET) else f"{node}"
        self.note(key, f"must be {alternatives((rule, *words))}, got {given}", node.position)
        return RefusedError()

    def _note_unknown(self, name: str, node: Node, key: str, known: list[str]) -> None:
        prefix = f"{key}." if key else ""
        guess = nearest(name, known)
        hint = f"did you mean {prefix}{guess}?" if guess else f"the keys are {', '.join(known)}"
        self._problems.add(f"{prefix}{shorten(name)} is not a known key: {hint}", node.position)
