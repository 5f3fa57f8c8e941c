from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from atd_dask.config.yaml_nodes import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_VALUES,
    ListNode,
    MappingNode,
    Position,
    Problems,
    ScalarNode,
    apply_assignments,
    read_mapping,
)
from atd_dask.errors import ConfigError


def read(folder: Path, text: str | bytes) -> tuple[MappingNode, list[str]]:
    file = folder / "c.yaml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    problems = Problems()
    node = read_mapping(str(file), problems)
    return node, [problem.replace(str(file), "c.yaml") for problem in problems]


def plain(node: object) -> object:
    if isinstance(node, MappingNode):
        return {key: plain(value) for key, value in node.entries.items()}
    if isinstance(node, ListNode):
        return [plain(item) for item in node.items]
    assert isinstance(node, ScalarNode)
    return None if node.is_null else node.text


def test_every_value_has_its_line(tmp_path: Path) -> None:
    tree, problems = read(tmp_path, "a: 1\nb:\n  c: x\n  d:\n    - y\n    - z\n")
    assert problems == []
    assert plain(tree) == {"a": "1", "b": {"c": "x", "d": ["y", "z"]}}
    items = tree.get("b.d")
    assert isinstance(items, ListNode)
    nodes = [tree.get("a"), tree.get("b"), tree.get("b.c"), items, *items.items]
    assert [node.position.line for node in nodes if node] == [1, 2, 3, 4, 5, 6]


def test_all_duplicates_are_found(tmp_path: Path) -> None:
    tree, problems = read(tmp_path, "a: 1\nb: {c: 1, c: 2}\na: 2\n")
    assert plain(tree) == {"a": "1", "b": {"c": "1"}}
    assert problems == [
        "b.c must be given once, got it again (c.yaml, line 2)",
        "a must be given once, got it again (c.yaml, line 3)",
    ]


def test_merge_keys(tmp_path: Path) -> None:
    text = "a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: {<<: [{y: 4}, *a]}\n"
    tree, problems = read(tmp_path, text)
    assert problems == []
    assert plain(tree.get("b")) == {"x": "1", "y": "3"}
    assert plain(tree.get("c")) == {"y": "4", "x": "1"}
    _, problems = read(tmp_path, "a: {<<: 3}\n")
    assert problems == ["<< in a must name a mapping, got 3 (c.yaml, line 1)"]


def test_keys_must_be_words(tmp_path: Path) -> None:
    _, problems = read(tmp_path, "a:\n  ? [1, 2]\n  : 3\n? {}\n: 1\n")
    assert problems == [
        "A key in a must be a word, got a list (c.yaml, line 2)",
        "A key must be a word, got a mapping (c.yaml, line 4)",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"must be a mapping of keys to values, got an empty file \("),
        ("# nothing\n", r"must be a mapping of keys to values, got an empty file \("),
        ("- a\n", r"must be a mapping of keys to values, got a list \("),
        ("hello\n", r"must be a mapping of keys to values, got hello \("),
        ("a: 1\nb: [1\nc: 2\n", r"This is not YAML: .* \(.*c\.yaml, line 3\)"),
        ("a: 1\n\tb: 2\n", r"This is not YAML: .* \(.*c\.yaml, line 2\)"),
        ("a: 1\n---\nb: 2\n", r"This is not YAML: expected a single document .* line 2\)"),
        ("a: 1\nb: \x01\n", r"This is not YAML: it has a control character \(.*, line 2\)"),
        ('a: "\\UFFFFFFFF"\n', r"This is not YAML: .* \(.*c\.yaml, line 1\)"),
        ("a: *nothing\n", r"This is not YAML: found undefined alias .* line 1\)"),
        (b"a: 1\nb: \xff\n", r"must be UTF-8 text, got the byte 0xff \(.*c\.yaml, line 2\)"),
        ("a: 1\n".encode("utf-16"), r"must be UTF-8 text, got the byte 0xff \(.*, line 1\)"),
        ("a: " + "[" * 5000, r"at most 20000 values, nested at most 30 deep, .* got more \("),
        ("a: &a [*a]\n", r"at most 20000 values, nested at most 30 deep, .* got more \("),
        ("a: &a {<<: *a}\n", r"at most 20000 values, nested at most 30 deep, .* got more \("),
        (b"#" * (MAX_BYTES + 1), rf"must have at most {MAX_BYTES} bytes, got more \("),
    ],
)
def test_unreadable_text_is_one_sentence(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        read(tmp_path, text)
    assert len(caught.value.problems) == 1
    assert "\n" not in str(caught.value)


def test_deep_text_is_refused_before_the_stack_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []
    compose = yaml.SafeLoader.compose_sequence_node
    monkeypatch.setattr(
        yaml.SafeLoader, "compose_sequence_node", lambda *given: begun.append(1) or compose(*given)
    )
    tree, _ = read(tmp_path, "a: " + "[" * MAX_DEPTH + "]" * MAX_DEPTH)
    assert str(tree.get("a")) == "a list"
    begun.clear()
    with pytest.raises(ConfigError, match=f"nested at most {MAX_DEPTH} deep"):
        read(tmp_path, "a: " + "[" * 5000)
    assert len(begun) == MAX_DEPTH


def test_alias_bomb_is_refused_early(tmp_path: Path) -> None:
    lines = ["l0: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 12)]
    with pytest.raises(ConfigError, match=f"at most {MAX_VALUES} values"):
        read(tmp_path, "\n".join(lines))


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"must be an existing file, got .*none\.yaml"):
        read_mapping(str(tmp_path / "none.yaml"), Problems())
    with pytest.raises(ConfigError, match="must be a file, got the folder"):
        read_mapping(str(tmp_path), Problems())
    with pytest.raises(ConfigError, match="cannot be read: "):
        read_mapping("a\0b", Problems())


def test_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    tree, _ = read(tmp_path, b"\xef\xbb\xbfa: 1\n")
    assert plain(tree) == {"a": "1"}


def test_assignments(tmp_path: Path) -> None:
    tree, _ = read(tmp_path, "a: &a {b: 1, c: 2}\nd: *a\ne: 5\n")
    problems = Problems()
    changed = apply_assignments(tree, ["d.b=9", "e.f.g=[x, y]", "h=k=v", "a.c="], problems)
    assert list(problems) == []
    assert plain(changed) == {
        "a": {"b": "1", "c": None},
        "d": {"b": "9", "c": "2"},
        "e": {"f": {"g": ["x", "y"]}},
        "h": "k=v",
    }
    assert plain(tree) == {"a": {"b": "1", "c": "2"}, "d": {"b": "1", "c": "2"}, "e": "5"}
    value = changed.get("d.b")
    assert value is not None
    assert str(value.position) == "--set d.b=9"


def test_all_bad_assignments_are_found(tmp_path: Path) -> None:
    tree, _ = read(tmp_path, "a: 1\n")
    problems = Problems()
    apply_assignments(tree, ["nothing", "a..b=1", "=1", "a=[", "a={x: 1, x: 2}"], problems)
    assert list(problems) == [
        "An option --set must be KEY=VALUE, got nothing (--set nothing)",
        "An option --set must be KEY=VALUE, got a..b=1 (--set a..b=1)",
        "An option --set must be KEY=VALUE, got =1 (--set =1)",
        "This is not YAML: while parsing a flow node expected the node content, but found "
        "'<stream end>' (--set a=[)",
        "a.x must be given once, got it again (--set a={x: 1, x: 2})",
    ]


def test_defaults_leave_what_is_given() -> None:
    position = Position("test", 1)
    one, two = ScalarNode(position, "1"), ScalarNode(position, "2")
    tree = MappingNode(position, {"a": one, "b": MappingNode(position, {"c": one})})
    for key in ("a", "a.x", "b.c", "b.d", "e.f"):
        tree = tree.put_default(key, two)
    assert plain(tree) == {"a": "1", "b": {"c": "1", "d": "2"}, "e": {"f": "2"}}
