from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import pytest

from atd_dask.documents import Document, Skipped
from atd_dask.errors import InputError
from atd_dask.text.options import Source, TextOptions
from atd_dask.text.readers import shards, tables
from tests.text.reading import read_documents, read_items

TOO_LARGE = "larger than corpus.text.max_bytes"


@pytest.fixture(params=["a.csv", "a.csv.gz"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / str(request.param)


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def test_rows_are_documents(path: Path) -> None:
    write(
        path,
        b'labels,id,text,more\na b,1,"One, two\nthree ""four""",x\n\n,,plain,\r\n"",2,5" disk,y\n',
    )
    assert read_documents("csv", path) == [
        Document("1", 'One, two\nthree "four"', ("a", "b")),
        Document(f"{path.name}:5", "plain"),
        Document("2", '5" disk'),
    ]


def test_tabs_separate_the_fields_of_tsv(tmp_path: Path) -> None:
    write(tmp_path / "a.tsv", b"\xef\xbb\xbfid\tbody\n1\tone, two\n")
    assert read_documents("tsv", tmp_path, text_field="body") == [Document("1", "one, two")]


def test_a_row_with_another_number_of_fields_is_skipped(path: Path) -> None:
    write(path, b"id,text\n1\n2,t\n3,t,u\n")
    reason = "another number of fields than the header"
    assert read_items("csv", path) == [
        Skipped(reason, f"{path}:2"),
        Document("2", "t"),
        Skipped(reason, f"{path}:4"),
    ]


def test_hostile_bytes(path: Path) -> None:
    write(path, b"id,text\n1,a\0b\n2,caf\xe9\n3,a\rb\n4,t\n")
    assert read_items("csv", path) == [
        Document("1", "a\0b"),
        Document("2", "caf\ufffd"),
        Skipped("not csv", f"{path}:4"),
        Document("4", "t"),
    ]
    assert read_items("csv", path, encoding="latin-1")[1] == Document("2", "café")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "must start with a header row, got no row"),
        (b"\n\n", "must start with a header row, got no row"),
        (b"id,body\n1,t\n", r"must have the column text \(text_field\), got id, body"),
        (b"text,id,text\n", r"column text \(text_field\) must occur once in .*, got 2"),
        (b"a\rb\n", "must start with a header row, got not csv"),
        (b"x" * 2000, "must start with a header row, got larger than corpus.text.max_bytes"),
    ],
)
def test_a_table_must_have_a_header_with_the_columns(path: Path, data: bytes, message: str) -> None:
    write(path, data)
    with pytest.raises(InputError, match=message):
        read_items("csv", path, TextOptions(max_bytes=1000))


def test_a_column_that_the_user_names_must_be_there(path: Path) -> None:
    write(path, b"id,text\n1,t\n")
    with pytest.raises(InputError, match=r"must have the column key \(id_field\), got id, text"):
        read_items("csv", path, id_field="key")


def test_an_open_quote_loses_no_rows_in_silence(path: Path) -> None:
    write(path, b'id,text\n1,t\n2,"open\n' + b"3,t\n" * 1000)
    for max_bytes in (100, 1_000_000):
        with pytest.raises(InputError, match="line 3: a quoted field must be closed, but is not"):
            read_items("csv", path, TextOptions(max_bytes=max_bytes))


def test_a_row_that_is_too_large_ends_with_its_quotes(path: Path) -> None:
    rows = (
        b'1,t\n2,"' + b"x\n" * 500 + b'"\n3,' + b"y" * 500 + b'\n4,"a\n' + b"z" * 500 + b'"\n5,t\n'
    )
    write(path, b"id,text\n" + rows)
    assert read_items("csv", path, TextOptions(max_bytes=300)) == [
        Document("1", "t"),
        Skipped(TOO_LARGE, f"{path}:3"),
        Skipped(TOO_LARGE, f"{path}:504"),
        Skipped(TOO_LARGE, f"{path}:505"),
        Document("5", "t"),
    ]


def test_a_huge_line_is_skipped_without_being_held(path: Path) -> None:
    write(path, b"id,text\n1,t\n2," + b"x " * 25_000_000 + b"\n3,t\n")
    options = TextOptions(max_bytes=1_000_000)
    tracemalloc.start()
    try:
        items = [i for shard in shards(Source("csv", str(path)), options) for i in shard.read()]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert items == [Document("1", "t"), Skipped(TOO_LARGE, f"{path}:3"), Document("3", "t")]
    assert peak < 30_000_000


def test_a_field_may_be_larger_than_the_csv_module_allows_by_itself(path: Path) -> None:
    write(path, b"id,text\n1," + b"x" * 1_000_000 + b"\n")
    assert len(read_documents("csv", path)[0].text) == 1_000_000


def test_shards_cover_every_row_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "PIECE", 500)
    write(path, b"text\n" + b"".join(b'"some\ntext"\n' for _ in range(300)))
    assert len(list(shards(Source("csv", str(path)), TextOptions()))) > 30
    assert [d.id for d in read_documents("csv", path)] == [
        f"{path.name}:{2 + 2 * i}" for i in range(300)
    ]
