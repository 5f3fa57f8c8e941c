"""YAML as a tree in which every value knows its position.

The text is not trusted: tags construct nothing, keys must be unique, and size, depth and the
expansion of aliases are limited. `<<` merges a mapping as usual.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import yaml

from atd_dask.errors import ConfigError
from atd_dask.wording import clean, shorten

# The suffixes of files of documents, for the formats that have any.
_DOCUMENTS = {
    "jsonl": (".jsonl", ".ndjson"),
    "csv": (".csv",),
    "tsv": (".tsv",),
    "parquet": (".parquet", ".pq"),
}
_ASSIGNMENT = re.compile(r"\s*(export\s+)?\w+=")

MAX_BYTES = 200_000
MAX_VALUES = 20_000
MAX_DEPTH = 30

_TOO_MUCH = (
    f"A configuration must have at most {MAX_VALUES} values, nested at most {MAX_DEPTH} deep, with "
    "aliases expanded, got more"
)
_TAG = "tag:yaml.org,2002:"
_TEXT_TAGS = frozenset({"str", "int", "float", "bool", "timestamp", "value", "merge"})


@dataclass(frozen=True, slots=True)
class Position:
    """A line of a file, or an option of the command."""

    source: str
    line: int | None = None

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}, line {self.line}"


class Problems:
    """Problems, collected so that a user learns of all of them at once."""

    def __init__(self) -> None:
        self._found: list[tuple[Position, str]] = []

    def add(self, sentence: str, position: Position) -> None:
        self._found.append((position, clean(f"{sentence} ({position})")))

    def __iter__(self) -> Iterator[str]:
        """Iterate over the sentences: those on the file in its order, then those on options."""
        ordered = sorted(self._found, key=lambda item: (item[0].line is None, item[0].line or 0))
        return iter(dict.fromkeys(sentence for _, sentence in ordered))

    def raise_if_any(self) -> None:
        if self._found:
            raise ConfigError(list(self))


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """A single value; `kind` is the type that YAML gives it."""

    position: Position
    text: str
    kind: str = "str"
    quoted: bool = False

    @property
    def is_null(self) -> bool:
        return self.kind == "null"

    @property
    def is_text(self) -> bool:
        """Whether the value can be read literally: `name: 2024` and `label: no` are words."""
        return self.kind in _TEXT_TAGS

    def __str__(self) -> str:
        if self.is_null:
            return "nothing"
        text = shorten(self.text)
        if self.quoted or not text.strip():
            return f'"{text}"'
        if self.is_text:
            return text
        tag = self.kind if self.kind.startswith("!") else f"!!{self.kind}"
        return f"{shorten(tag)} {text}"


@dataclass(frozen=True, slots=True)
class ListNode:
    position: Position
    items: tuple[Node, ...]

    def __str__(self) -> str:
        return "a list"


@dataclass(frozen=True, slots=True)
class MappingNode:
    position: Position
    entries: Mapping[str, Node]

    def __str__(self) -> str:
        return "a mapping"

    def get(self, key: str) -> Node | None:
        """Return the value at the dotted `key`, or None."""
        first, _, rest = key.partition(".")
        below = self.entries.get(first)
        if not rest:
            return below
        return below.get(rest) if isinstance(below, MappingNode) else None

    def put(self, key: str, value: Node) -> MappingNode:
        """Return a copy with `value` at the dotted `key`; anything but a mapping on the way there
        is replaced by one."""
        first, _, rest = key.partition(".")
        if rest:
            below = self.entries.get(first)
            if not isinstance(below, MappingNode):
                below = MappingNode(value.position, {})
            value = below.put(rest, value)
        return replace(self, entries={**self.entries, first: value})

    def remove(self, key: str) -> MappingNode:
        """Return a copy without the dotted `key`."""
        first, _, rest = key.partition(".")
        below = self.entries.get(first)
        if rest and isinstance(below, MappingNode):
            return self.put(first, below.remove(rest))
        return replace(self, entries={k: v for k, v in self.entries.items() if k != key})

    def put_default(self, key: str, value: Node) -> MappingNode:
        """Return a copy with `value` at the dotted `key` unless that is set. Anything but a mapping
        on the way there is left for the builder to refuse."""
        first, _, rest = key.partition(".")
        below = self.entries.get(first)
        if below is None:
            return self.put(key, value)
        if rest and isinstance(below, MappingNode):
            return self.put(first, below.put_default(rest, value))
        return self


Node: TypeAlias = ScalarNode | ListNode | MappingNode


class _UnreadableError(Exception):
    """Text that cannot be parsed."""

    def __init__(self, sentence: str, position: Position) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.position = position


def read_mapping(path: str, problems: Problems) -> MappingNode:
    """Read the mapping in the file `path`. Raises `ConfigError` if it is unreadable."""
    content = _read_content(path)
    if format := find_format(path, content):
        raise ConfigError(
            [
                f"A configuration must be YAML with a section corpus, got a file of documents: name"
                f" it in one, as in corpus: {{test: {{format: {format}, path: {clean(path)}}}, …}}"
                " (start from conf/own-documents.yaml)"
            ]
        )
    return parse_mapping(_decode(content, path), Position(path, 1), problems)


def find_format(path: str, content: bytes) -> str | None:
    """Return the format of a file of documents that was passed as a configuration, or None.

    It is recognised by its name, or by a first line that is a JSON object with a text, or that
    another object follows.
    """
    for format, endings in _DOCUMENTS.items():
        if path.lower().removesuffix(".gz").endswith(endings):
            return format
    first, *others = content[:MAX_BYTES].strip().split(b"\n", 2) or [b""]
    try:
        record = json.loads(first)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or "corpus" in record:
        return None
    return "jsonl" if "text" in record or (others and others[0].startswith(b"{")) else None


def parse_mapping(text: str, start: Position, problems: Problems) -> MappingNode:
    """Parse the mapping in a text that starts at `start`."""
    try:
        node = _parse(text, start, problems)
    except _UnreadableError as error:
        raise ConfigError([f"{error.sentence} ({error.position})"]) from None
    if isinstance(node, MappingNode):
        return node
    got: object = node
    if isinstance(node, ScalarNode) and node.is_null:
        got = "an empty file"
    elif isinstance(node, ScalarNode) and _ASSIGNMENT.match(text):
        got = "lines of KEY=VALUE, which in YAML are key: value"
    raise ConfigError(
        [f"A configuration must be a mapping of keys to values, got {got} ({start.source})"]
    )


def apply_assignments(
    root: MappingNode, assignments: Sequence[str], problems: Problems
) -> MappingNode:
    """Return `root` with each `key.sub=value` applied; values are YAML."""
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        # Values of these sections, under whatever name, may be passwords.
        shown = key if key.startswith(("cluster", "sweep")) else assignment
        position = Position(f"--set {shorten(shown)}")
        if not equals or not all(key.split(".")):
            problems.add(f"An option --set must be KEY=VALUE, got {shorten(assignment)}", position)
            continue
        try:
            root = root.put(key, _parse(text, position, problems, key))
        except _UnreadableError as error:
            problems.add(error.sentence, position)
    return root


def _read_content(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError([f"The configuration must be an existing file, got {path}"]) from None
    except IsADirectoryError:
        raise ConfigError([f"The configuration must be a file, got the folder {path}"]) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError([f"The configuration {clean(path)} cannot be read: {reason}"]) from None
    return content


def _decode(content: bytes, path: str) -> str:
    if len(content) > MAX_BYTES:
        raise ConfigError(
            [f"A configuration must have at most {MAX_BYTES} bytes, got more ({path})"]
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        position = Position(path, content.count(b"\n", 0, error.start) + 1)
        byte = f"the byte 0x{content[error.start]:02x}"
        raise ConfigError(
            [f"A configuration must be UTF-8 text, got {byte} ({position})"]
        ) from None


def _parse(text: str, start: Position, problems: Problems, key: str = "") -> Node:
    try:
        node = yaml.compose(text, Loader=_Loader)
        if node is None:
            return ScalarNode(start, "", "null")
        return _Converter(start, problems).convert(node, start, key, 0)
    except RecursionError:
        raise _UnreadableError(_TOO_MUCH, Position(start.source)) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise _explain(error, text, start) from None


class _Loader(yaml.SafeLoader):
    """Ends where nesting is too deep, while Python's stack still has room."""

    _depth = -1

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise RecursionError
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _explain(error: Exception, text: str, start: Position) -> _UnreadableError:
    """Turn an error of the YAML parser into one sentence."""
    position = start
    if isinstance(error, yaml.MarkedYAMLError):
        reason = " ".join(filter(None, [error.context, error.problem]))
        mark = error.problem_mark or error.context_mark
        if mark is not None and start.line is not None:
            position = Position(start.source, mark.line + 1)
    elif isinstance(error, yaml.reader.ReaderError):
        reason = "it has a control character"
        if start.line is not None and isinstance(error.position, int):
            position = Position(start.source, text.count("\n", 0, error.position) + 1)
    else:
        reason = str(error)
    return _UnreadableError(f"This is not YAML: {shorten(reason, 200)}", position)


class _Converter:
    """Converts the parser's nodes, which may share and contain each other, to a plain tree."""

    def __init__(self, start: Position, problems: Problems) -> None:
        self._start = start
        self._problems = problems
        self._values = 0

    def convert(self, node: yaml.Node, position: Position, key: str, depth: int) -> Node:
        self._values += 1
        if self._values > MAX_VALUES or depth > MAX_DEPTH:
            raise _UnreadableError(_TOO_MUCH, Position(self._start.source))
        if isinstance(node, yaml.MappingNode):
            return self._convert_mapping(node, position, key, depth)
        if isinstance(node, yaml.SequenceNode):
            items = (
                self.convert(item, self._find_position(item), f"{key}[{number}]", depth + 1)
                for number, item in enumerate(node.value)
            )
            return ListNode(position, tuple(items))
        quoted = isinstance(node, yaml.ScalarNode) and node.style is not None
        return ScalarNode(position, node.value, node.tag.removeprefix(_TAG), quoted)

    def _convert_mapping(
        self, node: yaml.MappingNode, position: Position, key: str, depth: int
    ) -> MappingNode:
        own: dict[str, Node] = {}
        merged: dict[str, Node] = {}
        for key_node, value_node in node.value:
            here = self._find_position(key_node)
            if key_node.tag == f"{_TAG}merge":
                for entries in self._convert_merged(value_node, here, key, depth):
                    merged = {**entries, **merged}
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                got = "a mapping" if isinstance(key_node, yaml.MappingNode) else "a list"
                self._problems.add(f"A key{_inside(key)} must be a word, got {got}", here)
                continue
            name = key_node.value
            dotted = f"{key}.{name}" if key else name
            value = self.convert(value_node, here, dotted, depth + 1)
            if name in own:
                self._problems.add(f"{shorten(dotted)} must be given once, got it again", here)
            else:
                own[name] = value
        return MappingNode(position, {**merged, **own})

    def _convert_merged(
        self, node: yaml.Node, position: Position, key: str, depth: int
    ) -> Iterator[Mapping[str, Node]]:
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for source in sources:
            merged = self.convert(source, position, key, depth + 1)
            if isinstance(merged, MappingNode):
                yield merged.entries
            else:
                self._problems.add(f"<<{_inside(key)} must name a mapping, got {merged}", position)

    def _find_position(self, node: yaml.Node) -> Position:
        if self._start.line is None:
            return self._start
        return Position(self._start.source, node.start_mark.line + 1)


def _inside(key: str) -> str:
    return f" in {shorten(key)}" if key else ""
