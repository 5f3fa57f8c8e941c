"""The bench of ingest, on a few documents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from atd_dask.bench.ingest_speed import N_TOKENS, bench_ingest, write_documents
from atd_dask.cli.outputs import make_progress
from atd_dask.pipelines.ingest import ingest


def test_documents_are_the_same_every_time(tmp_path: Path) -> None:
    files = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    for file in files:
        assert sum(write_documents(file, 30)) == 30
    assert files[0].read_bytes() == files[1].read_bytes()
    lines = [json.loads(line) for line in files[0].read_text().splitlines()]
    assert [line["id"] for line in lines] == [str(row) for row in range(30)]
    assert {len(line["text"].split()) for line in lines} == {N_TOKENS}


def test_all_rows_are_measured() -> None:
    rows = bench_ingest(200, ingest, make_progress(quiet=True))
    assert [row["what"].partition(",")[0] for row in rows] == [
        "atd-dask ingest",
        "atd-dask ingest",
        "scikit-learn CountVectorizer",
    ]
    assert rows[0]["times_one_worker"] == 1
    assert rows[1]["times_one_worker"] == pytest.approx(
        rows[1]["documents_per_second"] / rows[0]["documents_per_second"], rel=0.05, abs=0.01
    )
    for row in rows:
        assert row["documents"] == 200
        assert "cpu_seconds" in row  # rounded: so few documents may take no time
