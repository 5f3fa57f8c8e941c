from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from atd_dask.config.builder import Builder, RefusedError
from atd_dask.config.settings import Rule, RuleTable, describe_keys
from atd_dask.config.yaml_nodes import Problems, read_mapping


@dataclass(frozen=True)
class Inner:
    size: Annotated[int, Rule("how large", at_least=1, at_most=9)]
    other: Annotated[int, Rule("how wide")] = 2


@dataclass(frozen=True)
class Foreign:
    """A class without rules of its own, which has them in the table."""

    share: float = 0.5


@dataclass(frozen=True)
class Outer:
    text: Annotated[str, Rule("a word", choices=("a", "b"))] = "a"
    flag: Annotated[bool, Rule("whether")] = False
    count: Annotated[int | Literal["auto"], Rule("how many", at_least=1)] = "auto"
    ratio: Annotated[float | None, Rule("how much", more_than=0, less_than=1)] = None
    words: Annotated[tuple[str, ...], Rule("some words")] = ()
    numbers: Annotated[tuple[int, ...], Rule("some numbers", at_least=0)] = ()
    free: Annotated[Mapping[str, object], Rule("anything")] = field(default_factory=dict)
    inner: Annotated[Inner | None, Rule("a section", shorthand=("size", "other"))] = None
    again: Annotated[Inner | None, Rule("another")] = None
    foreign: Annotated[Foreign, Rule("a section of another room")] = Foreign()
    class_: Annotated[str, Rule("a keyword")] = "x"
    file: Annotated[str, Rule("a path", is_input=True)] = "f"


TABLE: RuleTable = {Foreign: {"share": Rule("a share", at_most=1)}}


def build(folder: Path, text: str) -> tuple[Outer, list[str]]:
    (folder / "c.yaml").write_text(text)
    problems = Problems()
    tree = read_mapping(str(folder / "c.yaml"), problems)

    def find_input(path: str) -> tuple[str, str | None]:
        return f"/found/{path}", "something else" if path == "lost" else None

    outer = Builder(problems, TABLE, find_input).build(Outer, tree)
    return outer, [problem.rpartition(" (")[0] for problem in problems]


GOOD: list[tuple[str, str, object]] = [
    ("text: b", "text", "b"),
    ("flag: true", "flag", True),
    ("flag: no", "flag", False),
    ("count: 12", "count", 12),
    ("count: 1_000", "count", 1000),
    ("count: auto", "count", "auto"),
    ("ratio: 0.25", "ratio", 0.25),
    ("ratio: 1e-4", "ratio", 1e-4),
    ("ratio: 1.0e-4", "ratio", 1e-4),
    ("ratio: .5", "ratio", 0.5),
    ("ratio: null", "ratio", None),
    ("ratio:", "ratio", None),
    ("words: [no, 10, 2020-01-01, x]", "words", ("no", "10", "2020-01-01", "x")),
    ("numbers: [0, 1]", "numbers", (0, 1)),
    (
        'free: {a: [1, 2.5, 1e3, true, null], b: {c: "5"}, d: 010}',
        "free",
        {"a": [1, 2.5, 1000.0, True, None], "b": {"c": "5"}, "d": 10.0},
    ),
    ("inner: {size: 3}", "inner", Inner(3)),
    ("inner: 4", "inner", Inner(4, 4)),
    ("foreign:", "foreign", Foreign()),
    ("foreign: {share: 1}", "foreign", Foreign(1.0)),
    ("class: y", "class_", "y"),
    ("file: g", "file", "/found/g"),
]


@pytest.mark.parametrize(("text", "name", "value"), GOOD)
def test_good_values(tmp_path: Path, text: str, name: str, value: object) -> None:
    outer, problems = build(tmp_path, text)
    assert problems == []
    found = getattr(outer, name)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("text: c", "text must be a or b, got c"),
        ('text: ""', 'text must be text that is not empty, got ""'),
        ('text: "\\e[31m"', 'text must be text without control characters, got "�[31m"'),
        ('text: "\\ud800"', 'text must be text without control characters, got "�"'),
        ("text:", "text must be text, got nothing"),
        ("text: []", "text must be text, got a list"),
        ("text: !foo bar", "text must be text, got !foo bar"),
        ("flag: 1", "flag must be true or false, got 1"),
        ("count: true", "count must be a whole number or auto, got true"),
        ("count: 1.0", "count must be a whole number or auto, got 1.0"),
        ("count: 010", "count must be a whole number or auto, got 010"),
        ("count: 1:30", "count must be a whole number or auto, got 1:30"),
        ('count: "5"', 'count must be a whole number or auto, got "5"'),
        ("count: -3", "count must be at least 1 or auto, got -3"),
        (f"count: {'9' * 5000}", f"count must be a whole number of at most {2**63 - 1}, got"),
        ("count: {}", "count must be a whole number or auto, got a mapping"),
        ("ratio: 0", "ratio must be more than 0 and less than 1, got 0"),
        ("ratio: .nan", "ratio must be a number, got .nan"),
        ("ratio: -.inf", "ratio must be a number, got -.inf"),
        ("ratio: 1e999", "ratio must be a finite number, got 1e999"),
        ("ratio: true", "ratio must be a number, got true"),
        ("words: x", "words must be a list, got x"),
        ("words: [x, [y]]", "words[1] must be text, got a list"),
        ("numbers: [1, -1]", "numbers[1] must be at least 0, got -1"),
        ("free: [1]", "free must be a mapping of keys to values, got a list"),
        (
            "free: {a: !!binary aGk=}",
            "free.a must be text, a number, a list or a mapping, got !!binary",
        ),
        ("free: {a: [1e999]}", "free.a[0] must be a finite number, got 1e999"),
        ("inner: x", "inner must be a whole number, got x"),
        ("inner: 10", "inner must be at least 1 and at most 9, got 10"),
        ("inner: {}", "inner.size must be given, got nothing"),
        ("again: 3", "again must be a mapping of keys to values, got 3"),
        ("foreign: {share: 2}", "foreign.share must be at most 1, got 2"),
        ("file: lost", "file must be something else, got lost"),
        ("foreign: {shar: 3}", "foreign.shar is not a known key: did you mean foreign.share?"),
        ("foreign: {qqq: 3}", "foreign.qqq is not a known key: the keys are share"),
    ],
)
def test_bad_values(tmp_path: Path, text: str, problem: str) -> None:
    outer, problems = build(tmp_path, text)
    assert len(problems) == 1
    assert problems[0].startswith(problem)
    assert outer == Outer()  # what is refused leaves its default


def test_a_section_is_refused_only_for_what_it_needs(tmp_path: Path) -> None:
    outer, problems = build(tmp_path, "inner: {size: 0, other: x}\nagain: {size: 1, other: x}\n")
    assert outer.inner is None
    assert outer.again == Inner(1)
    assert len(problems) == 3


def test_broken_keys_are_remembered(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("inner: {size: 0}\n")
    problems = Problems()
    tree = read_mapping(str(tmp_path / "c.yaml"), problems)
    builder = Builder(problems, TABLE, lambda path: (path, None))
    builder.build(Outer, tree)
    assert builder.is_broken("inner")
    assert builder.is_broken("inner.size")
    assert builder.is_broken("text", "inner")
    assert not builder.is_broken("inn", "text", "inner.other")
    with pytest.raises(RefusedError, match=r"^$"):
        builder.build(Inner, tree)


def test_keys_are_described_from_the_same_fields() -> None:
    entries: dict[str, Any] = {entry.key: entry for entry in describe_keys(Outer, TABLE)}
    assert list(entries) == [
        "text",
        "flag",
        "count",
        "ratio",
        "words",
        "numbers",
        "free",
        "inner",
        "inner.size",
        "inner.other",
        "again",
        "foreign",
        "foreign.share",
        "class",
        "file",
    ]
    shown = {key: (entry.value, entry.default) for key, entry in entries.items()}
    assert shown["text"] == ("a or b", "`a`")
    assert shown["count"] == ("a whole number or auto, at least 1", "`auto`")
    assert shown["ratio"] == ("a number or null, more than 0 and less than 1", "`null`")
    assert shown["words"] == ("a list", "`[]`")
    assert shown["free"] == ("a mapping of keys to values", "`{}`")
    assert shown["inner.size"] == (
        "a whole number, at least 1 and at most 9",
        "none, required",
    )
    assert shown["foreign.share"] == ("a number, at most 1", "`0.5`")
    assert shown["file"] == ("a path or URL", "`f`")
    assert entries["again"].meaning == "another; keys as in `inner`"
