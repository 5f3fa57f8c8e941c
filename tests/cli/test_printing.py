from __future__ import annotations

import io
import re
import sys

import pytest
from rich.cells import cell_len

from atd_dask.cli.printing import (
    format_facts,
    print_clusters,
    print_corpora,
    print_sweeps,
    print_table,
)
from tests.results import make_alert, make_line, make_part, make_result

RAISED = {"probability": 0.2, "shared_probability": 0.1}
PARTS = {
    "train": make_part(
        documents=12345,
        copies=1001,
        tokens=7,
        terms=3,
        path="runs/a/train.zarr",
        skipped={
            "not JSON": {"documents": 2, "first": "a.jsonl:3\x1b[31m"},
            "no field text": {"documents": 1000, "first": "a.jsonl:9"},
        },
    ),
    "test": make_part(documents=1, tokens=2, terms=3, path="[b]x"),
}


def test_corpora(capsys: pytest.CaptureFixture[str]) -> None:
    print_corpora(PARTS)
    assert capsys.readouterr().out.splitlines() == [
        "part   documents  copies  tokens  terms  skipped",
        "train  12,345     1,001   7       3      1,002",
        "test   1          0       2       3      0",
        "train: skipped 1,000, no field text; the first: a.jsonl:9",
        "train: skipped 2, not JSON; the first: a.jsonl:3�[31m",
        "store of train: runs/a/train.zarr",
        "store of test: [b]x",
    ]


def test_clusters_of_repeats(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = {"index": 1, "size": 12, "support": 12.5, "search_p_value": 0.00123456}
    cluster |= {"p_value": 0.000999, "significant": True, "salient_words": []}
    clusters = [
        cluster | {"repeats": {"found": 5, "of": 5, "p_value": 5e-6 / 3}},
        cluster
        | {"index": 2, "significant": False}
        | {"repeats": {"found": 2, "of": 5, "p_value": 0.03}},
    ]
    print_clusters(make_result(clusters=clusters, repeats={"n": 5}))
    assert capsys.readouterr().out.splitlines()[:4] == [
        "cluster  documents  support  search p-value  p-value   repeats  significant",
        "1        12         12.5     0.001235        0.000999  5 of 5   yes",
        "2        12         12.5     0.001235        0.000999  2 of 5   no",
        "p-values over all repeats, which decide: 1.7e-06 of 1, 0.03 of 2",
    ]


def test_clusters_with_labels(capsys: pytest.CaptureFixture[str]) -> None:
    words = [{"word": f"w{n}\x1b", "occurring": n != 1} | RAISED for n in range(12)]
    words.insert(2, words[0] | {"word": "rarer", "shared_probability": 0.3})
    cluster = {"index": 1, "size": 1234, "p_value": 0.000999, "significant": True}
    found = {"label": "tea", "recall": 0.5, "precision": 1, "f1": 2 / 3, "auc": 0.75}
    clusters = [
        cluster | {"salient_words": words, "evaluation": found},
        cluster | {"index": 2, "salient_words": [], "significant": False},
    ]
    evaluation = {"group": {"f1": 0.6, "auc": 0.7}, "individual": {"f1": 0.8, "auc": 0.9}}
    print_clusters(make_result(clusters=clusters, evaluation=evaluation))
    shown = " ".join(f"w{n}�" for n in (0, 2, 3, 4, 5, 6, 7, 8))
    assert capsys.readouterr().out.splitlines() == [
        "cluster  documents  p-value   significant",
        "1        1,234      0.000999  yes",
        "2        1,234      0.000999  no",
        f"words of 1: {shown}",
        "words of 2: none",
        "cluster  recall  precision  F1    AUC   label",
        "1        0.50    1.00       0.67  0.75  tea",
        "mean of the significant clusters: F1 0.60, AUC 0.70",
        "their documents together: F1 0.80, AUC 0.90",
    ]
    print_clusters(make_result())
    assert capsys.readouterr().out == "no cluster was found\n"


def test_the_support_of_clusters(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = {"size": 1234, "p_value": 0.000999, "salient_words": []}
    clusters = [
        cluster | {"index": 1, "significant": True, "support": 123.456, "search_p_value": 0.05},
        cluster | {"index": 2, "significant": False, "support": -0.5, "search_p_value": 1.0},
    ]
    print_clusters(make_result(clusters=clusters))
    assert capsys.readouterr().out.splitlines() == [
        "cluster  documents  support  search p-value  p-value   significant",
        "1        1,234      123.5    0.05            0.000999  yes",
        "2        1,234      -0.5     1               0.000999  no",
        "words of 1: none",
        "words of 2: none",
    ]


LONG = "Donaudampfschifffahrtsgesellschaftskapitänswitwe" * 2
WIDE = "火山喷发" * 15


def list_everything() -> None:
    """Every table, with the longest things that a corpus may contain."""
    words = [
        {"word": "s", "written": w, "occurring": True} | RAISED for w in (LONG, WIDE, "lava") * 3
    ]
    figures = {"support": 123456.7, "search_p_value": 0.000012345, "p_value": 0.000999}
    found = {"label": WIDE + LONG, "recall": 1, "precision": 1, "f1": 1, "auc": 1}
    cluster = {"index": 1, "size": 1234567, "n_copies": 123456, "significant": True} | figures
    cluster |= {"salient_words": words, "evaluation": found}
    group = {"size": 1234, "words": ["s"], "written": [LONG, WIDE], "documents": []}
    print_clusters(make_result(clusters=[cluster], copies=[group]))
    sizes = {"documents": 10**8, "copies": 10**7, "tokens": 10**11, "terms": 10**7}
    skipped = {f"no field {LONG}": {"documents": 10**6, "first": f"{WIDE}.jsonl:1"}}
    print_corpora({"validation": make_part(**sizes, path="p", skipped=skipped)})
    print_table(["id", "words", "labels"], [[LONG, WIDE, "a b"], ["x", "y", f"{LONG} {WIDE}"]])
    news = {"cluster": 1, "kind": "new", "size": 9, "written": [LONG, WIDE], "words": ["s"]}
    line = make_line(1, documents=10**7, tested=10**7, unseen_share=0.5)
    print_sweeps("out", [line], [make_alert(1, news | {"documents": []})])


def test_all_lines_fit_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    list_everything()
    out = capsys.readouterr().out
    assert max(map(cell_len, out.splitlines())) <= 80
    joined = "".join(out.split())
    assert LONG in joined, "nothing is cut"
    assert WIDE in joined


def test_all_lines_fit_80_columns_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("COLUMNS", "80")
    list_everything()
    shown = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())
    assert max(map(cell_len, shown.splitlines())) <= 80


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


def test_rows_may_be_dim(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    print_table(["a"], [["plain"], ["failed"]], dim=[1])
    plain, failed = (
        next(line for line in stream.getvalue().splitlines() if word in line)
        for word in ("plain", "failed")
    )
    assert "\x1b[2m" not in plain
    assert "\x1b[2m" in failed


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
