from __future__ import annotations

import csv
import io

import pytest

from atd_dask.stages.spreadsheets import guard_table


def guard(*cells):
    table = io.StringIO(newline="")
    csv.writer(table, lineterminator="\n").writerow(cells)
    content = guard_table(table.getvalue().encode()).decode()
    assert "\r" not in content
    (row,) = csv.reader(io.StringIO(content, newline=""))
    return row


@pytest.mark.parametrize("cell", ["=1+1", "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\tx", "-"])
def test_a_formula_becomes_text(cell):
    assert guard("a", cell) == ["a", f"'{cell}"]


def test_numbers_and_harmless_text_stay():
    cells = [
        "1",
        "-3.25",
        "+4e-05",
        "True",
        "a=b",
        "x@y",
        "two\nlines",
        'a "quoted", word',
        "Grüße",
    ]
    assert guard(*cells) == cells


def test_carriage_returns_are_blanks():
    assert guard("\rx", "a\rb", "a\r\nb", "\r=1+1") == [" x", "a b", "a \nb", "' =1+1"]


def test_a_cell_may_be_long():
    limit = csv.field_size_limit()
    long = "x" * (limit + 10)
    assert guard_table(f"a,={long}\n".encode()) == f"a,'={long}\n".encode()
    assert csv.field_size_limit() == limit
