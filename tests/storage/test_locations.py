from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

from atd_dask.errors import InputError
from atd_dask.storage.locations import MANIFEST, UNFINISHED, Partial, Place


def test_a_path_and_its_url_are_the_same_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    expected = Place(str(tmp_path / "a.zarr"), local=True)
    assert Place.of(tmp_path / "a.zarr") == expected
    assert Place.of(f"file://{tmp_path}/a.zarr/") == expected
    assert Place.of("a.zarr") == expected


def test_siblings_stand_beside_the_place(tmp_path: Path) -> None:
    assert Place.of(tmp_path / "a").sibling("b").url == str(tmp_path / "b")
    assert Place.of("memory://a").sibling("b").url == "memory://b"
    assert Place.of("memory://x/a/").sibling("b").url == "memory://x/b"


def test_a_bucket_is_no_place_for_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="a name below its bucket, got s3://bucket"):
        Place.of("s3://bucket").sibling("b")


def test_patterns_are_refused() -> None:
    with pytest.raises(InputError, match=r"must not hold any of .*, got memory://a\*"):
        Place.of("memory://a*")


def test_an_unknown_protocol_is_one_sentence() -> None:
    with pytest.raises(InputError, match="nowhere://a cannot be used: Protocol not known"):
        Place.of("nowhere://a").read(MANIFEST)


@pytest.fixture(params=["local", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    root = tmp_path if request.param == "local" else f"memory://{uuid.uuid4().hex}"
    return Place.of(f"{root}/store")


def test_files_are_read_listed_and_removed(place: Place) -> None:
    assert place.files() == {}
    assert place.names() == []
    place.write("b/c", b"12")
    place.write("a", b"1")
    assert place.files() == {"a": 1, "b/c": 2}
    assert place.names() == ["a", "b"]
    assert place.read("b/c") == b"12"
    assert place.read("b") is None
    assert place.read("a/c") is None
    place.remove()
    assert place.files() == {}


def publish(place: Place, content: bytes) -> None:
    partial = Partial(place)
    partial.place.write("x/y", content)
    partial.publish(["x/y"], b"atd-dask " + content)


def test_a_store_appears_whole_and_replaces_an_older_one(place: Place) -> None:
    publish(place, b"old")
    place.write("left over", b"")
    publish(place, b"new")
    assert place.files() == {MANIFEST: 12, "x/y": 3}
    assert place.read("x/y") == b"new"
    assert place.read(MANIFEST) == b"atd-dask new"
    assert place.partials() == []


def test_a_partial_store_is_seen_as_unfinished_and_can_be_discarded(place: Place) -> None:
    partial = Partial(place)
    assert [found.url for found in place.partials()] == [partial.place.url]
    assert partial.place.read(MANIFEST) == UNFINISHED
    partial.discard()
    assert place.partials() == []
    assert place.names() == []


@pytest.mark.parametrize("name", ["notes.txt", "zarr.json", MANIFEST])
def test_other_people_s_files_are_never_replaced(place: Place, name: str) -> None:
    place.write(name, b"{}")
    with pytest.raises(InputError, match=r"store holds something else"):
        Partial(place)
    assert place.read(name) == b"{}"
    assert place.partials() == []


def test_a_file_in_the_way_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("mine")
    with pytest.raises(InputError, match="holds something else"):
        Partial(Place.of(tmp_path / "store"))


def test_what_came_while_writing_is_not_replaced_either(place: Place) -> None:
    partial = Partial(place)
    place.write("notes.txt", b"mine")
    with pytest.raises(InputError, match="holds something else"):
        partial.publish([], b"")
    partial.discard()
    assert place.files() == {"notes.txt": 4}


def test_an_empty_folder_is_a_free_place(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    publish(Place.of(tmp_path / "store"), b"new")
    assert (tmp_path / "store" / "x" / "y").read_bytes() == b"new"


def test_a_link_is_followed(tmp_path: Path) -> None:
    publish(Place.of(tmp_path / "first"), b"old")
    (tmp_path / "latest").symlink_to("first")
    publish(Place.of(tmp_path / "latest"), b"new")
    assert (tmp_path / "latest").is_symlink()
    assert (tmp_path / "first" / "x" / "y").read_bytes() == b"new"


def test_a_living_writer_on_this_machine_keeps_its_files(tmp_path: Path) -> None:
    place = Place.of(tmp_path / "store")
    slow = Partial(place)
    publish(place, b"fast")
    assert [found.url for found in place.partials()] == [slow.place.url]
    slow.publish([], b"atd-dask slow")
    assert place.read(MANIFEST) == b"atd-dask slow"
    assert place.partials() == []


def test_a_writer_that_lost_its_files_does_not_finish(place: Place) -> None:
    publish(place, b"old")
    partial = Partial(place)
    with pytest.raises(InputError, match=r"only one writer may make .*store at a time"):
        partial.publish(["x/y"], b"atd-dask new")
    partial.discard()
    assert place.read("x/y") == b"old"


def test_a_failed_move_leaves_the_old_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place.of(tmp_path / "store")
    publish(place, b"old")
    partial = Partial(place)
    rename = Path.rename

    def fail(path: Path, target: str | os.PathLike[str]) -> Path:
        if str(path) == partial.place.url:
            raise OSError("no")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(OSError, match="no"):
        partial.publish([], b"")
    partial.discard()
    assert place.read("x/y") == b"old"
    assert place.partials() == []


def test_a_death_between_two_objects_leaves_a_place_that_the_next_writer_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = Place.of(f"memory://{uuid.uuid4().hex}/store")
    publish(place, b"old")

    def die(*arguments: object) -> None:
        raise KeyboardInterrupt("dead")

    with monkeypatch.context() as patch:
        patch.setattr(Place, "copy_to", die)
        with pytest.raises(KeyboardInterrupt, match="dead"):
            publish(place, b"never")
    assert place.files() == {MANIFEST: len(UNFINISHED)}
    assert place.read(MANIFEST) == UNFINISHED
    assert len(place.partials()) == 1
    publish(place, b"new")
    assert place.read("x/y") == b"new"
    assert place.partials() == []
