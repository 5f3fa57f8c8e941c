from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import fsspec
import pytest

from atd_dask.documents import Document, Skipped
from atd_dask.errors import InputError
from atd_dask.text.options import Source, TextOptions
from atd_dask.text.readers import jsonl, shards
from tests.text.reading import read_documents, read_items


def write_lines(path: Path, *lines: object) -> Path:
    text = "".join((x if isinstance(x, str) else json.dumps(x)) + "\n" for x in lines)
    data = text.encode("utf-8", "surrogateescape")
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.fixture(params=["a.jsonl", "a.jsonl.gz"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / str(request.param)


def test_a_line_is_a_document(path: Path) -> None:
    write_lines(
        path, {"id": "x", "text": "One two", "labels": ["a", "b c"]}, "", "  ", {"text": ""}
    )
    assert read_documents("jsonl", path) == [
        Document("x", "One two", ("a", "b c")),
        Document(f"{path.name}:4", ""),
    ]


def test_fields_have_the_names_that_the_source_gives(path: Path) -> None:
    write_lines(path, {"key": 7, "body": "text", "topic": "ship crude", "id": "no", "text": 1})
    fields = {"id_field": "key", "text_field": "body", "labels_field": "topic"}
    assert read_documents("jsonl", path, **fields) == [Document("7", "text", ("ship", "crude"))]


@pytest.mark.parametrize(
    ("given", "id"),
    [(3, "3"), (1.5, "1.5"), ("x", "x"), ("", "a.jsonl:1"), (None, "a.jsonl:1"), (0, "0")],
)
def test_ids(tmp_path: Path, given: object, id: str) -> None:
    path = write_lines(tmp_path / "a.jsonl", {"id": given, "text": "t"})
    assert read_documents("jsonl", path) == [Document(id, "t")]


def test_ids_that_are_there_twice_come_out_twice(path: Path) -> None:
    write_lines(path, {"id": 1, "text": "t"}, {"id": "1", "text": "u"})
    assert [document.id for document in read_documents("jsonl", path)] == ["1", "1"]


@pytest.mark.parametrize(
    ("given", "labels"),
    [
        (None, ()),
        ("", ()),
        ("a\tb", ("a", "b")),
        ([], ()),
        (["a", "", "b c"], ("a", "b c")),
        ([1], ("1",)),
    ],
)
def test_labels(tmp_path: Path, given: object, labels: tuple[str, ...]) -> None:
    path = write_lines(tmp_path / "a.jsonl", {"id": "x", "text": "t", "labels": given})
    assert read_documents("jsonl", path) == [Document("x", "t", labels)]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{bad", "not JSON"),
        ('{"text": "cut off', "not JSON"),
        ('{"text": "t"} {"text": "u"}', "not JSON"),
        ('{"id": ' + "9" * 5000 + ', "text": "t"}', "not JSON"),
        ("[" * 100_000, "JSON nested too deeply"),
        ('{"a": ' * 50_000 + "1" + "}" * 50_000, "JSON nested too deeply"),
        ('["text"]', "not a JSON object"),
        ("null", "not a JSON object"),
        ({"id": "x"}, "no field text"),
        ({"text": None}, "no field text"),
        ({"text": 3}, "no string in field text"),
        ({"text": "t", "id": ["x"]}, "neither text nor a number in field id"),
        ({"text": "t", "id": True}, "neither text nor a number in field id"),
        ({"text": "t", "labels": {"a": 1}}, "neither text nor a list of text in field labels"),
        ({"text": "t", "labels": [["a"]]}, "neither text nor a list of text in field labels"),
    ],
)
def test_a_bad_line_is_skipped_with_its_place(path: Path, line: object, reason: str) -> None:
    write_lines(path, {"id": 1, "text": "t"}, line, {"id": 3, "text": "t"})
    assert read_items("jsonl", path) == [
        Document("1", "t"),
        Skipped(reason, f"{path}:2"),
        Document("3", "t"),
    ]


def test_bytes_that_are_not_of_the_encoding_are_replaced(path: Path) -> None:
    write_lines(path, '{"id": "caf\udce9", "text": "caf\udce9 ol\udcc3\udca9"}')
    assert read_documents("jsonl", path) == [Document("caf\ufffd", "caf\ufffd olé")]
    assert read_documents("jsonl", path, encoding="latin-1") == [Document("café", "café olÃ©")]


def test_control_characters_are_kept(path: Path) -> None:
    write_lines(path, '{"id": "x\\u0000", "text": "a\0b\tc\\u0000d"}')
    assert read_documents("jsonl", path) == [Document("x\0", "a\0b\tc\0d")]


def test_lone_surrogates_leave_ids_and_labels(path: Path) -> None:
    write_lines(path, '{"id": "\\ud800", "text": "t", "labels": ["\\udfff"]}')
    assert read_documents("jsonl", path) == [Document("\ufffd", "t", ("\ufffd",))]


def test_a_byte_order_mark_and_carriage_returns_are_no_text(path: Path) -> None:
    write_lines(path, '\ufeff{"id": 1, "text": "t"}\r', '{"id": 2, "text": "u"}\r')
    assert read_documents("jsonl", path) == [Document("1", "t"), Document("2", "u")]


def test_the_last_line_needs_no_end(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": 1, "text": "t"}\n{"id": 2, "text": "u"}')
    assert len(read_documents("jsonl", tmp_path / "a.jsonl")) == 2


def test_an_empty_file_has_no_documents(path: Path) -> None:
    write_lines(path)
    assert read_documents("jsonl", path) == []


def test_a_line_may_have_as_many_bytes_as_allowed(path: Path) -> None:
    line = json.dumps({"id": "x", "text": "é" * 100}, ensure_ascii=False)
    write_lines(path, line, {"id": "y", "text": "t"})
    size = len(line.encode())
    assert len(read_documents("jsonl", path, TextOptions(max_bytes=size))) == 2
    items = read_items("jsonl", path, TextOptions(max_bytes=size - 1))
    assert items == [
        Skipped("larger than corpus.text.max_bytes", f"{path}:1"),
        Document("y", "t"),
    ]


def test_a_huge_line_is_skipped_without_being_held(path: Path) -> None:
    huge = '{"text": "' + "x " * 25_000_000 + '"}'
    write_lines(path, {"id": 1, "text": "t"}, huge, {"id": 3, "text": "t"})
    del huge
    options = TextOptions(max_bytes=1_000_000)
    tracemalloc.start()
    try:
        items = [
            item for shard in shards(Source("jsonl", str(path)), options) for item in shard.read()
        ]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert items == [
        Document("1", "t"),
        Skipped("larger than corpus.text.max_bytes", f"{path}:2"),
        Document("3", "t"),
    ]
    assert peak < 30_000_000


def test_shards_cover_every_line_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atd_dask.text.readers.files.PIECE", 100)
    monkeypatch.setattr(jsonl, "PIECE", 50)
    write_lines(path, *({"text": "word " * (i % 40)} for i in range(300)))
    assert len(list(shards(Source("jsonl", str(path)), TextOptions()))) > 100
    found = read_documents("jsonl", path)
    assert [document.id for document in found] == [f"{path.name}:{i + 1}" for i in range(300)]


def test_shards_are_made_as_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_lines(tmp_path / "a.jsonl", {"id": 1, "text": "t"})
    (tmp_path / "b.jsonl.gz").write_bytes(b"not gzip")
    found: Iterator[object] = shards(Source("jsonl", str(tmp_path)), TextOptions())
    assert len(list(islice(found, 1))) == 1
    with pytest.raises(InputError, match=r"b\.jsonl\.gz must be a whole gzip file"):
        next(found)


def test_a_folder_on_another_file_system() -> None:
    for name in ("b", "a"):
        with fsspec.open(f"memory://jsonl-folder/{name}.jsonl", "wb") as file:
            file.write(b'{"text": "t"}\n')
    found = read_documents("jsonl", "memory://jsonl-folder")
    assert [document.id for document in found] == ["a.jsonl:1", "b.jsonl:1"]


@pytest.mark.parametrize(
    "encoding",
    ["utf-16", "utf-7", "rot13", "klingon", "idna", "punycode", "unicode_escape", "undefined"],
)
def test_an_encoding_must_leave_ascii_alone(tmp_path: Path, encoding: str) -> None:
    with pytest.raises(InputError, match=f"encoding must be one that .*, got '{encoding}' for a"):
        shards(Source("jsonl", "a", encoding=encoding), TextOptions())


def test_a_source_must_have_a_path_and_a_known_format() -> None:
    with pytest.raises(InputError, match="of format jsonl must have a path"):
        shards(Source("jsonl"), TextOptions())
    with pytest.raises(InputError, match=r"format must be one of csv, .*, got 'ldac'"):
        shards(Source("ldac", "a"), TextOptions())


def test_an_encoding_with_a_null_character_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="encoding must be one that "):
        shards(Source("jsonl", "a", encoding="utf-8\0"), TextOptions())
