from __future__ import annotations

import io
import sys
from typing import Any

import pytest

from atd_dask.interface.tables import format_facts, print_corpora, print_table

PARTS: dict[str, Any] = {
    "train": {
        "documents": 12345,
        "tokens": 7,
        "terms": 3,
        "path": "runs/a/train.zarr",
        "skipped": {
            "not JSON": {"documents": 2, "first": "a.jsonl:3\x1b[31m"},
            "no field text": {"documents": 1000, "first": "a.jsonl:9"},
        },
    },
    "test": {"documents": 1, "tokens": 2, "terms": 3, "path": "[b]x", "skipped": {}},
}


def test_corpora(capsys: pytest.CaptureFixture[str]) -> None:
    print_corpora(PARTS)
    assert capsys.readouterr().out.splitlines() == [
        "part   documents  tokens  terms  skipped  store",
        "train  12,345     7       3      1,002    runs/a/train.zarr",
        "test   1          2       3      0        [b]x",
        "train: skipped 1,000, no field text; the first: a.jsonl:9",
        "train: skipped 2, not JSON; the first: a.jsonl:3�[31m",
    ]


def test_a_table_on_a_terminal_shows_text_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("NO_COLOR", "1")
    print_table(["a[b]", "c"], [["[red]x[/]", "\x1b[31my"]])
    shown = stream.getvalue()
    assert "a[b]" in shown
    assert "[red]x[/]" in shown
    assert "�[31my" in shown
    assert "\x1b[31m" not in shown


def test_facts() -> None:
    facts = {"kind": "corpus", "size": 12345, "labels": {"a\n": 2}, "words": ["x", 1], "mean": 1.5}
    assert list(format_facts(facts)) == [
        "kind: corpus",
        "size: 12,345",
        "labels:",
        "  a : 2",
        "words: x, 1",
        "mean: 1.5",
    ]
