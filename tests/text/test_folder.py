from __future__ import annotations

from pathlib import Path

import fsspec
import pytest

from atd_dask.documents import Document, Skipped
from atd_dask.errors import InputError
from atd_dask.text.options import Source, TextOptions
from atd_dask.text.readers import folder, shards
from tests.text.reading import read_documents, read_items


def write(root: Path, name: str, data: bytes = b"text") -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def test_files_are_documents_and_folders_labels(tmp_path: Path) -> None:
    for name in ("sport/hockey/b.txt", "sport/a.txt", "top.txt", "sport/.hidden"):
        write(tmp_path, name)
    assert read_documents("text", tmp_path) == [
        Document("top.txt", "text"),
        Document("sport/a.txt", "text", ("sport",)),
        Document("sport/hockey/b.txt", "text", ("hockey",)),
    ]


def test_a_glob_may_match_folders(tmp_path: Path) -> None:
    for name in ("sport/hockey/b.txt", "sport/a.txt", "space/c.txt", "trade/d.txt", "s.txt"):
        write(tmp_path, name)
    assert read_documents("text", tmp_path / "s*") == [
        Document("s.txt", "text"),
        Document("space/c.txt", "text", ("space",)),
        Document("sport/a.txt", "text", ("sport",)),
        Document("sport/hockey/b.txt", "text", ("hockey",)),
    ]


def test_hostile_files(tmp_path: Path) -> None:
    write(tmp_path, "a", b"caf\xe9 \0")
    write(tmp_path, "b", b"\xef\xbb\xbftext")
    write(tmp_path, "c", b"")
    write(tmp_path, "d", b"x" * 101)
    write(tmp_path, "e", b"x" * 100)
    assert read_items("text", tmp_path, TextOptions(max_bytes=100)) == [
        Document("a", "caf\ufffd \0"),
        Document("b", "text"),
        Document("c", ""),
        Skipped("larger than corpus.text.max_bytes", str(tmp_path / "d")),
        Document("e", "x" * 100),
    ]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"%PDF-1.7 stream", "PDF"),
        (b"PK\x03\x04\x14\x00 [Content_Types].xml", "a zip archive, such as DOCX or ODT"),
        (b"{\\rtf1 text}", "RTF"),
    ],
)
def test_files_that_are_not_plain_text_are_skipped(tmp_path: Path, data: bytes, kind: str) -> None:
    write(tmp_path, "a.txt", b"text")
    write(tmp_path, "b", data)
    assert read_items("text", tmp_path) == [
        Document("a.txt", "text"),
        Skipped(f"not plain text but {kind}", str(tmp_path / "b")),
    ]


def test_files_come_in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(10):
        write(tmp_path, str(i), b"x" * 10)
    monkeypatch.setattr(folder, "_GROUP_FILES", 4)
    assert [len(s.files) for s in folder.shards(Source("text"), str(tmp_path), TextOptions())] == [
        4,
        4,
        2,
    ]
    monkeypatch.setattr(folder, "PIECE", 15)
    assert len(list(shards(Source("text", str(tmp_path)), TextOptions()))) == 5
    assert len(read_documents("text", tmp_path)) == 10


def test_a_folder_on_another_file_system() -> None:
    for name in ("b/2", "a/1"):
        with fsspec.open(f"memory://text-folder/{name}", "wb") as file:
            file.write(b"text")
    assert read_documents("text", "memory://text-folder") == [
        Document("a/1", "text", ("a",)),
        Document("b/2", "text", ("b",)),
    ]


def test_a_folder_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must hold at least one file, has none"):
        read_items("text", tmp_path)
    with pytest.raises(InputError, match="absent must exist"):
        read_items("text", tmp_path / "absent")
