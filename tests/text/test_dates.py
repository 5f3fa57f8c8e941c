"""Dates of documents: what a field may contain, and what becomes of it."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime

import numpy as np
import pytest

from atd_dask.documents import NO_DATE, Document, Skipped
from atd_dask.text.counting import count_shard
from atd_dask.text.dates import read_date
from atd_dask.text.options import Source, TextOptions
from atd_dask.text.readers import shards
from tests.text.reading import read_documents, read_items

DAY = 86400


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("1970-01-02", DAY),
        (" 1970-01-02T00:00:00Z ", DAY),
        ("1970-01-02T01:30:00+01:00", DAY + 1800),
        ("1970-01-02 00:00:01.9", DAY + 1),
        (DAY, DAY),
        (str(DAY), DAY),
        (-1.5, -2),
        (date(1970, 1, 2), DAY),
        (datetime(1970, 1, 2, tzinfo=UTC), DAY),
        ("next week", None),
        (True, None),
        (1e300, None),
        (float("nan"), None),
        ([], None),
    ],
)
def test_what_is_a_date(value, seconds):
    assert read_date(value) == seconds


def test_dates_of_lines_and_tables(tmp_path):
    lines = [
        {"id": "a", "text": "one", "at": "1970-01-02"},
        {"id": "b", "text": "two", "at": None},
        {"id": "c", "text": "three", "at": "some day"},
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    first, second, third = read_items("jsonl", path, date_field="at")
    assert first == Document("a", "one", (), DAY)
    assert second == Document("b", "two")
    assert isinstance(third, Skipped)
    assert third.reason == "no date in field at"
    table = tmp_path / "a.csv"
    table.write_text("id,text,at\na,one,1970-01-02\nb,two,\n")
    assert [d.date for d in read_documents("csv", table, date_field="at")] == [DAY, None]
    # Nobody asked for it.
    assert [d.date for d in read_documents("csv", table)] == [None, None]


def test_dates_of_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    moments = pa.array([datetime(1970, 1, 2, tzinfo=UTC), None], pa.timestamp("ms", "UTC"))
    table = pa.table({"id": ["a", "b"], "text": ["one", "two"], "at": moments})
    parquet.write_table(table, tmp_path / "a.parquet")
    found = read_documents("parquet", tmp_path / "a.parquet", date_field="at")
    assert [document.date for document in found] == [DAY, None]


def test_batches_have_dates_only_if_a_document_has_one(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "one", "at": 5}\n{"text": "two"}\n')
    for field, expected in (("at", [5, NO_DATE]), (None, None)):
        source = Source("jsonl", str(path), date_field=field)
        (shard,) = shards(source, TextOptions())
        dates = count_shard(shard, TextOptions()).batch.dates
        if expected is None:
            assert dates is None
        else:
            np.testing.assert_array_equal(dates, expected)
