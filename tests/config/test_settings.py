"""Rules of settings, and how the documentation shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest

from atd_dask.config.settings import Rule, describe_keys, list_settings, name_type


@dataclass(frozen=True, kw_only=True)
class Inner:
    size: Annotated[int, Rule("the size", at_least=1, at_most=9)]
    class_: Annotated[str | None, Rule("the class")] = None


@dataclass(frozen=True, kw_only=True)
class Outer:
    kind: Annotated[str, Rule("the kind", choices=("a", "b"))] = "a"
    share: Annotated[float, Rule("a share", more_than=0, less_than=1)] = 0.5
    first: Annotated[Inner | None, Rule("one part")] = None
    second: Annotated[Inner | None, Rule("another part")] = None


@pytest.mark.parametrize(
    ("rule", "value", "allowed"),
    [
        (Rule("", at_least=1), 1, True),
        (Rule("", more_than=1), 1, False),
        (Rule("", at_most=2, less_than=2), 2, False),
        (Rule("", choices=("a",)), "b", False),
        (Rule("", pattern="a+"), "aab", False),
        (Rule("", pattern="a+"), "aa", True),
        (Rule("", at_least=1), None, True),
    ],
)
def test_limits(rule: Rule, value: object, allowed: bool) -> None:
    assert rule.allows(value) is allowed


def test_limits_in_words() -> None:
    assert Rule("", more_than=0, less_than=1).words() == "more than 0 and less than 1"
    assert Rule("", choices=("a", "b", "c")).words() == "a, b or c"
    assert name_type(float) == "a number"


def test_keys_have_the_names_of_fields_and_their_rules() -> None:
    size, kind = list_settings(Inner, {})
    assert (size.key, size.is_required, size.rule.at_most) == ("size", True, 9)
    assert (kind.key, kind.is_required) == ("class", False)


def test_a_shared_section_is_described_once() -> None:
    entries = {entry.key: entry for entry in describe_keys(Outer, {})}
    assert [*entries] == ["kind", "share", "first", "first.size", "first.class", "second"]
    assert entries["first.size"].default == "none, required"
    assert entries["second"].meaning == "another part; keys as in `first`"
