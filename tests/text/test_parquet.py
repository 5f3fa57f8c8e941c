from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from atd_dask.documents import Document, Skipped
from atd_dask.errors import InputError
from atd_dask.text.options import Source, TextOptions
from atd_dask.text.readers import parquet, shards
from tests.text.reading import read_documents, read_items

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def write(path: Path, row_group_size: int = 1000, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path, row_group_size=row_group_size)
    return path


def test_rows_are_documents(tmp_path: Path) -> None:
    write(
        tmp_path / "a.parquet",
        more=[0, 0, 0],
        labels=[["a", "b"], [], None],
        id=[1, 2, None],
        text=pa.array(["one", "two", "one"]).dictionary_encode(),
    )
    assert read_documents("parquet", tmp_path) == [
        Document("1", "one", ("a", "b")),
        Document("2", "two"),
        Document("a.parquet:3", "one"),
    ]


def test_a_row_group_is_a_shard(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", row_group_size=3, text=[str(i) for i in range(8)])
    assert len(list(shards(Source("parquet", str(path)), TextOptions()))) == 3
    assert [(d.id, d.text) for d in read_documents("parquet", path)] == [
        (f"a.parquet:{i + 1}", str(i)) for i in range(8)
    ]


def test_labels_may_be_text_and_text_large(tmp_path: Path) -> None:
    write(tmp_path / "a.pq", text=pa.array(["t"], pa.large_string()), labels=["a b"], id=["x"])
    assert read_documents("parquet", tmp_path) == [Document("x", "t", ("a", "b"))]


def test_hostile_values(tmp_path: Path) -> None:
    raw = pa.array([b"caf\xe9", None, b"x" * 100, b"", b"a\0b"], pa.binary())
    text = pa.StringArray.from_buffers(5, *raw.buffers()[1:], null_bitmap=raw.buffers()[0])
    path = write(tmp_path / "a.parquet", text=text, id=[b"\xff", b"1", b"2", b"3", b"4"])
    assert read_items("parquet", path, TextOptions(max_bytes=99)) == [
        Document("\ufffd", "caf\ufffd"),
        Skipped("no field text", f"{path}:2"),
        Skipped("larger than corpus.text.max_bytes", f"{path}:3"),
        Document("3", ""),
        Document("4", "a\0b"),
    ]


def test_values_of_the_wrong_kind_are_skipped(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", text=[1.5])
    assert read_items("parquet", path) == [Skipped("no string in field text", f"{path}:1")]


def test_a_table_must_have_the_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", body=["t"])
    with pytest.raises(InputError, match=r"must have the column text \(text_field\), got body"):
        read_items("parquet", path)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", text=["t" * 1000])
    data = path.read_bytes()
    for damaged in (b"", b"PAR1", data[:-20]):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"a\.parquet must be a whole Parquet file"):
            read_items("parquet", path)
    path.write_bytes(data[:4] + b"\xff" * 20 + data[24:])
    with pytest.raises(InputError, match=r"a\.parquet cannot be read"):
        read_items("parquet", path)


def test_without_pyarrow_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.parquet", text=["t"])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"pip install 'atd-dask\[parquet\]'"):
        read_items("parquet", path)


def test_a_damaged_name_of_a_column_is_a_sentence(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", text=["one"], notes=["two"])
    path.write_bytes(path.read_bytes().replace(b"notes", b"n\xcbtes"))
    with pytest.raises(InputError, match=r"a\.parquet must be a whole Parquet file, but is not"):
        read_items("parquet", path)


def test_a_text_that_is_repeated_is_held_once(tmp_path: Path) -> None:
    text = "one two " * 2**17
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int32()), pa.array([text]))
    path = write(tmp_path / "a.parquet", text=texts)
    assert path.stat().st_size < 100_000
    before = pa.total_allocated_bytes()
    (shard,) = shards(Source("parquet", str(path)), TextOptions())
    tracemalloc.start()
    sizes = [len(item.text) for item in shard.read() if isinstance(item, Document)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sizes == [len(text)] * 1000
    assert peak < 50 * len(text)
    assert pa.default_memory_pool().max_memory() - before < 50 * len(text)


@pytest.mark.parametrize(
    ("rows", "limit", "rule"),
    [
        (["x"] * 3000, {"MOST_ROWS": 1000}, "there must be at most 1000 rows, or one for each"),
        (
            ["x" * 10**6],
            {"MOST_UNPACKED": 10**5, "MOST_TIMES": 9},
            "it must be at most 9 times as large",
        ),
    ],
)
def test_a_few_bytes_do_not_become_gigabytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[str], limit: dict[str, int], rule
) -> None:
    path = write(tmp_path / "a.parquet", row_group_size=10**6, text=rows)
    for name, value in limit.items():
        monkeypatch.setattr(parquet, name, value)
    with pytest.raises(InputError, match=rf"a\.parquet, row group 0: {rule}"):
        read_items("parquet", path)


def test_a_row_whose_value_is_not_there_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indices, words = pa.array([0, 7], pa.int32()), pa.array(["one"])
    astray = pa.DictionaryArray.from_arrays(indices, words, safe=False)
    batch = pa.RecordBatch.from_arrays([astray], ["text"])
    path = write(tmp_path / "a.parquet", text=["one", "one"])
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda *_, **__: iter([batch]))
    with pytest.raises(InputError, match=r"a\.parquet must be a whole Parquet file, but is not: a"):
        read_items("parquet", path)
