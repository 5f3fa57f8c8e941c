from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

from atd_dask.errors import InputError
from atd_dask.storage.locations import MANIFEST, UNFINISHED, Location, Partial


def test_a_path_and_its_url_are_the_same_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    expected = Location(str(tmp_path / "a.zarr"), local=True)
    assert Location.of(tmp_path / "a.zarr") == expected
    assert Location.of(f"file://{tmp_path}/a.zarr/") == expected
    assert Location.of("a.zarr") == expected


def test_siblings_stand_beside_the_place(tmp_path: Path) -> None:
    assert Location.of(tmp_path / "a").sibling("b").url == str(tmp_path / "b")
    assert Location.of("memory://a").sibling("b").url == "memory://b"
    assert Location.of("memory://x/a/").sibling("b").url == "memory://x/b"


def test_a_bucket_is_no_place_for_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="a name below its bucket, got s3://bucket"):
        Location.of("s3://bucket").sibling("b")


def test_patterns_are_refused() -> None:
    with pytest.raises(InputError, match=r"must not contain .*, got memory://a\*"):
        Location.of("memory://a*")


@pytest.mark.parametrize("url", ["s3://", "s3:///", "memory://"])
def test_a_url_names_a_place(url: str) -> None:
    with pytest.raises(InputError, match=f"must name a place, got {url}$"):
        Location.of(url)


def test_an_unknown_protocol_is_one_sentence() -> None:
    with pytest.raises(InputError, match="nowhere://a cannot be used: Protocol not known"):
        Location.of("nowhere://a").read(MANIFEST)


@pytest.fixture(params=["local", "memory"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    root = tmp_path if request.param == "local" else f"memory://{uuid.uuid4().hex}"
    return Location.of(f"{root}/store")


def test_files_are_read_listed_and_removed(location: Location) -> None:
    assert location.files() == {}
    assert location.names() == []
    location.write("b/c", b"12")
    location.write("a", b"1")
    assert location.files() == {"a": 1, "b/c": 2}
    assert location.names() == ["a", "b"]
    assert location.read("b/c") == b"12"
    assert location.read("b") is None
    assert location.read("a/c") is None
    location.remove()
    assert location.files() == {}


def publish(location: Location, content: bytes) -> None:
    partial = Partial(location)
    partial.location.write("x/y", content)
    partial.publish(["x/y"], b"atd-dask " + content)


def test_a_store_appears_whole_and_replaces_an_older_one(location: Location) -> None:
    publish(location, b"old")
    location.write("left over", b"")
    publish(location, b"new")
    assert location.files() == {MANIFEST: 12, "x/y": 3}
    assert location.read("x/y") == b"new"
    assert location.read(MANIFEST) == b"atd-dask new"
    assert location.partials() == []


def test_a_partial_store_is_seen_as_unfinished_and_can_be_discarded(location: Location) -> None:
    partial = Partial(location)
    assert [found.url for found in location.partials()] == [partial.location.url]
    assert partial.location.read(MANIFEST) == UNFINISHED
    partial.discard()
    assert location.partials() == []
    assert location.names() == []


@pytest.mark.parametrize("name", ["notes.txt", "zarr.json", MANIFEST])
def test_other_people_s_files_are_never_replaced(location: Location, name: str) -> None:
    location.write(name, b"{}")
    with pytest.raises(InputError, match=r"store holds something else"):
        Partial(location)
    assert location.read(name) == b"{}"
    assert location.partials() == []


def test_a_file_in_the_way_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("mine")
    with pytest.raises(InputError, match="holds something else"):
        Partial(Location.of(tmp_path / "store"))


def test_what_came_while_writing_is_not_replaced_either(location: Location) -> None:
    partial = Partial(location)
    location.write("notes.txt", b"mine")
    with pytest.raises(InputError, match="holds something else"):
        partial.publish([], b"")
    partial.discard()
    assert location.files() == {"notes.txt": 4}


def test_an_empty_folder_is_a_free_place(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    publish(Location.of(tmp_path / "store"), b"new")
    assert (tmp_path / "store" / "x" / "y").read_bytes() == b"new"


def test_a_link_is_followed(tmp_path: Path) -> None:
    publish(Location.of(tmp_path / "first"), b"old")
    (tmp_path / "latest").symlink_to("first")
    publish(Location.of(tmp_path / "latest"), b"new")
    assert (tmp_path / "latest").is_symlink()
    assert (tmp_path / "first" / "x" / "y").read_bytes() == b"new"


def test_a_living_writer_on_this_machine_keeps_its_files(tmp_path: Path) -> None:
    location = Location.of(tmp_path / "store")
    slow = Partial(location)
    publish(location, b"fast")
    assert [found.url for found in location.partials()] == [slow.location.url]
    slow.publish([], b"atd-dask slow")
    assert location.read(MANIFEST) == b"atd-dask slow"
    assert location.partials() == []


def test_a_writer_that_lost_its_files_does_not_finish(location: Location) -> None:
    publish(location, b"old")
    partial = Partial(location)
    with pytest.raises(InputError, match=r"only one writer may make .*store at a time"):
        partial.publish(["x/y"], b"atd-dask new")
    partial.discard()
    assert location.read("x/y") == b"old"


def test_a_failed_move_leaves_the_old_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = Location.of(tmp_path / "store")
    publish(location, b"old")
    partial = Partial(location)
    rename = Path.rename

    def fail(path: Path, target: str | os.PathLike[str]) -> Path:
        if str(path) == partial.location.url:
            raise OSError("no")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(OSError, match="no"):
        partial.publish([], b"")
    partial.discard()
    assert location.read("x/y") == b"old"
    assert location.partials() == []


def test_a_death_between_two_objects_leaves_a_place_that_the_next_writer_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    location = Location.of(f"memory://{uuid.uuid4().hex}/store")
    publish(location, b"old")

    def die(*arguments: object) -> None:
        raise KeyboardInterrupt("dead")

    with monkeypatch.context() as patch:
        patch.setattr(Location, "copy_to", die)
        with pytest.raises(KeyboardInterrupt, match="dead"):
            publish(location, b"never")
    assert location.files() == {MANIFEST: len(UNFINISHED)}
    assert location.read(MANIFEST) == UNFINISHED
    assert len(location.partials()) == 1
    publish(location, b"new")
    assert location.read("x/y") == b"new"
    assert location.partials() == []
