from __future__ import annotations

import json
from pathlib import Path

import pytest

from atd_dask.documents import Document, Skipped
from atd_dask.errors import InputError
from atd_dask.text.options import TextOptions
from atd_dask.text.words import Tokeniser
from tests.text import samples
from tests.text.reading import read_documents, read_items

FORMS = ["sgml", "sgml.tar.gz", "json", "json.tgz"]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_stories(tmp_path: Path, form: str) -> None:
    items = read_items("reuters", samples.write_reuters(tmp_path, form))
    assert [getattr(item, "reason", None) for item in items] == [None, "no topic", "no body", None]
    coffee, grain = (item for item in items if isinstance(item, Document))
    assert (coffee.id, coffee.labels) == ("1", ("coffee", "ship"))
    assert coffee.text == (
        "Three ships of A&B left\x7fSantos, s learned.\n \n\x03\nCOFFEE SHIPS <CAFE> LEAVE"
    )
    assert grain == Document("4", "Grãos.\nGRAIN", ("grain",))


def test_a_place_names_the_story(tmp_path: Path) -> None:
    path = samples.write_reuters(tmp_path, "sgml")
    assert read_items("reuters", path / "reut2-000.sgm")[1] == Skipped(
        "no topic", f"{path / 'reut2-000.sgm'}, story 2"
    )


def test_a_control_character_ends_a_word(tmp_path: Path) -> None:
    text = read_items("reuters", samples.write_reuters(tmp_path, "sgml"))[0]
    assert isinstance(text, Document)
    words = Tokeniser(TextOptions(letters="ascii")).words(text.text)
    assert words == ["three", "ship", "left", "santo", "learn", "coffe", "ship", "cafe", "leav"]


@pytest.mark.parametrize(
    "story",
    [
        '<REUTERS NEWID="9"><TOPICS><D>ship</D></TOPICS><BODY>cut off',
        "<REUTERS><TOPICS><D>ship</D></TOPICS><BODY>no id</BODY></REUTERS>",
    ],
)
def test_a_damaged_story_is_skipped(tmp_path: Path, story: str) -> None:
    path = tmp_path / "reut2-001.sgm"
    path.write_text(story + samples.SGML, encoding="latin-1")
    first, *others = read_items("reuters", path)
    assert first == Skipped("a damaged story", f"{path}, story number 1 of the file")
    assert len(others) == 4


@pytest.mark.parametrize(
    "story",
    [
        None,
        {},
        {"id": 3},
        {"id": "3", "body": 1},
        {"id": "3", "topics": "ship"},
        {"id": "3", "topics": [1]},
    ],
)
def test_a_damaged_story_of_json_is_skipped(tmp_path: Path, story: object) -> None:
    path = tmp_path / "reuters-001.json"
    path.write_text(json.dumps([*samples.STORIES, story]))
    assert read_items("reuters", path)[4] == Skipped(
        "a damaged story", f"{path}, story number 5 of the file"
    )


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("reut2-000.sgm", b"no stories", "must hold stories in <REUTERS> elements"),
        ("reuters-000.json", b"{}", "must be a JSON list of stories"),
        ("reuters-000.json", b"[", "must be a JSON file"),
        ("reuters-000.json", b"[" * 100_000, "must be a JSON file"),
        ("story.txt", b"text", r"must hold files reut2-\*\.sgm or reuters-\*\.json, has none"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    samples.write_tree(tmp_path, {name: data})
    with pytest.raises(InputError, match=message):
        read_items("reuters", tmp_path)


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    path = samples.write_reuters(tmp_path, "sgml.tar.gz")
    samples.truncate(path, 8)
    with pytest.raises(InputError, match=r"tar\.gz must be a whole gzip file"):
        read_items("reuters", path)
    samples.repack(samples.write_reuters(tmp_path, "sgml.tar.gz"), 9000)
    with pytest.raises(InputError, match=r"tar\.gz must be a whole tar archive"):
        read_items("reuters", path)
    path.write_bytes(b"no archive")
    with pytest.raises(InputError, match=r"tar\.gz must be a whole gzip file"):
        read_items("reuters", path)


def test_an_archive_without_stories_is_refused(tmp_path: Path) -> None:
    path = samples.write_tar(tmp_path / "a.tgz", {"README": b"text"})
    with pytest.raises(InputError, match=r"a\.tgz must hold files"):
        read_items("reuters", path)


def test_members_with_hostile_names_are_only_read(tmp_path: Path) -> None:
    data = samples.SGML.encode("latin-1")
    names = ["../../reut2-000.sgm", "/etc/reut2-001.sgm"]
    path = samples.write_tar(tmp_path / "a.tar.gz", dict.fromkeys(names, data))
    assert len(read_items("reuters", path)) == 8
    assert list(tmp_path.iterdir()) == [path]


def test_a_story_may_be_too_large(tmp_path: Path) -> None:
    path = samples.write_reuters(tmp_path, "sgml")
    items = read_items("reuters", path, TextOptions(max_bytes=20))
    assert [getattr(item, "reason", None) for item in items] == [
        "larger than corpus.text.max_bytes",
        "no topic",
        "no body",
        None,
    ]


def test_a_file_may_be_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atd_dask.text.readers.reuters.MAX_FILE_BYTES", 300)
    for form in FORMS:
        with pytest.raises(InputError, match="must have at most 300 bytes, has more"):
            read_items("reuters", samples.write_reuters(tmp_path, form))


def test_unclosed_elements_take_no_quadratic_time(tmp_path: Path) -> None:
    story = '<REUTERS NEWID="1"><TOPICS>' + "<D>" * 500_000 + "</TOPICS>" + "<BODY>" * 500_000
    path = tmp_path / "reut2-000.sgm"
    path.write_text(story + "</REUTERS>")
    assert [getattr(item, "reason", None) for item in read_items("reuters", path)] == ["no topic"]


def test_stories_keep_their_order(tmp_path: Path) -> None:
    for number in (2, 0, 1):
        story = samples.STORY.format(id=number, title="T", topics="<D>a</D>", body="<BODY>b</BODY>")
        (tmp_path / f"reut2-00{number}.sgm").write_text(story)
    assert [d.id for d in read_documents("reuters", tmp_path)] == ["0", "1", "2"]
