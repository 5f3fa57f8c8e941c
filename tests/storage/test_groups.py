"""Any group of ours, not only a corpus, is sealed and checked in the same way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr

from atd_dask.errors import DamagedStoreError, InputError
from atd_dask.storage.groups import TEXT, GroupWriter, SealedGroup
from atd_dask.storage.locations import Location
from atd_dask.storage.verification import verify

PROBABILITIES = np.linspace(0, 1, 12).reshape(3, 4)
NAMES = ["a", "", "\0", "x" * 100_000, "😀\n", "end\0"]


def write_model(url: Path) -> None:
    with GroupWriter(url, "atd-dask-model/3") as writer:
        writer.group("", {"made": "here"})
        writer.put("topics/probabilities", PROBABILITIES)
        writer.put("topics/nothing", np.zeros((0, 4)))
        writer.put("topics/title", np.array("a title", dtype=TEXT))
        names = writer.stream("names", TEXT, 4)
        sizes = writer.stream("sizes", np.dtype(np.int64), 4)
        for name in NAMES:
            names.append([name])
        sizes.append(np.arange(100))
        sizes.append(np.arange(3))
        writer.seal({"topics": 3})


@pytest.fixture
def model(tmp_path: Path) -> Path:
    write_model(tmp_path / "model")
    return tmp_path / "model"


def test_arrays_of_any_kind_come_back(model: Path) -> None:
    group = SealedGroup.open(model, "model", 3)
    assert group.manifest.counts == {"topics": 3}
    np.testing.assert_array_equal(group.read("topics/probabilities"), PROBABILITIES)
    np.testing.assert_array_equal(group.read("topics/probabilities", 1, 2), PROBABILITIES[1:2])
    assert group.read("topics/nothing").shape == (0, 4)
    assert str(group.read("topics/title")) == "a title"
    assert group.read("names").tolist() == NAMES
    np.testing.assert_array_equal(group.read("sizes"), [*range(100), *range(3)])
    np.testing.assert_array_equal(np.concatenate(list(group.pieces("sizes"))), group.read("sizes"))
    assert max(len(piece) for piece in group.pieces("sizes")) == 4
    assert verify(model) == []


def test_other_readers_see_the_same_tree_with_and_without_the_gathered_metadata(
    model: Path,
) -> None:
    for gathered in (True, False):
        group = zarr.open_group(model, mode="r", use_consolidated=gathered)
        np.testing.assert_array_equal(group["topics/probabilities"][...], PROBABILITIES)
        assert group.attrs["made"] == "here"
        assert dict(group["sizes"].metadata.to_dict()) == dict(
            zarr.open_array(model / "sizes", mode="r").metadata.to_dict()
        )


def test_every_chunk_is_written_once(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from zarr.storage import LocalStore

    written: list[str] = []
    put = LocalStore.set

    async def record(store: LocalStore, key: str, value: zarr.core.buffer.Buffer) -> None:
        written.append(key)
        await put(store, key, value)

    monkeypatch.setattr(LocalStore, "set", record)
    write_model(model)
    assert len(written) == len(set(written)) == 26 + 2 + 2


def test_the_caller_may_use_its_buffer_again(tmp_path: Path) -> None:
    buffer = np.arange(3)
    with GroupWriter(tmp_path / "g", "atd-dask-model/1") as writer:
        writer.group("", {})
        stream = writer.stream("a", np.dtype(np.int64), 8)
        stream.append(buffer)
        buffer[:] = 7
        stream.append(buffer)
        writer.seal({})
    assert SealedGroup.open(tmp_path / "g", "model", 1).read("a").tolist() == [0, 1, 2, 7, 7, 7]


def test_without_seal_nothing_remains(tmp_path: Path) -> None:
    with GroupWriter(tmp_path / "g", "atd-dask-model/1") as writer:
        writer.group("", {})
        writer.put("a", np.arange(3))
    assert list(tmp_path.iterdir()) == []


def test_damage_names_the_array_and_the_place(model: Path) -> None:
    chunk = model / "sizes" / "c" / "2"
    content = chunk.read_bytes()
    chunk.write_bytes(content[:-1])
    group = SealedGroup.open(model, "model", 3)
    np.testing.assert_array_equal(group.read("sizes", 0, 8), np.arange(8))
    with pytest.raises(DamagedStoreError, match=r"sizes\[6:9\] of .*model is damaged"):
        group.read("sizes", 6, 9)
    chunk.unlink()
    with pytest.raises(DamagedStoreError, match=r"sizes\[6:9\] .* chunk sizes/c/2 is missing"):
        group.read("sizes", 6, 9)
    (model / "topics" / "title" / "c").unlink()
    with pytest.raises(DamagedStoreError, match=r"topics/title of .*topics/title/c is missing"):
        group.read("topics/title")


def test_a_writer_whose_files_were_taken_does_not_finish(tmp_path: Path) -> None:
    with GroupWriter(tmp_path / "g", "atd-dask-model/1") as writer:
        writer.group("", {})
        writer.put("a", np.arange(3))
        (partial,) = Location.of(tmp_path / "g").partials()
        (Path(partial.url) / "a" / "c" / "0").unlink()
        with pytest.raises(InputError, match=r"only one writer may make .*g at a time"):
            writer.seal({})
    assert list(tmp_path.iterdir()) == []
