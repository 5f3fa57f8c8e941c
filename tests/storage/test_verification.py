"""Whatever happens to a file of a store, `verify` says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from atd_dask.errors import DamagedStoreError, InputError
from atd_dask.storage import corpus_writer
from atd_dask.storage.corpus import KIND, VERSION
from atd_dask.storage.groups import SealedGroup
from atd_dask.storage.verification import verify
from tests.storage.corpora import write_corpus

ARRAYS = [
    "X/data",
    "X/indices",
    "X/indptr",
    "obs/id",
    "obs/labels",
    "obs/length",
    "obs/unseen",
    "obsm/unseen/data",
    "obsm/unseen/indices",
    "obsm/unseen/indptr",
    "uns/attributes",
    "uns/block_starts",
    "uns/unseen_words",
    "var/word",
]
GROUPS = ["X", "layers", "obs", "obsm", "obsm/unseen", "obsp", "uns", "var", "varm", "varp"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store with two chunks in every long array; tests restore what they damage."""
    path = tmp_path_factory.mktemp("store") / "c"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus_writer, "CHUNK_ENTRIES", 128)
        patch.setattr(corpus_writer, "CHUNK_DOCUMENTS", 32)
        patch.setattr(corpus_writer, "CHUNK_TEXTS", 32)
        write_corpus(path, n_docs=40, block_documents=8)
    yield path
    assert verify(path) == []


def files_of(store: Path) -> list[Path]:
    return sorted(path for path in store.rglob("*") if path.is_file())


def test_the_store_holds_what_these_tests_damage(store: Path) -> None:
    manifest = SealedGroup.open(store, KIND, VERSION).manifest
    assert sorted(manifest.arrays) == ARRAYS
    assert sorted(manifest.metadata) == sorted(
        ["zarr.json", *(f"{path}/zarr.json" for path in ARRAYS + GROUPS)]
    )


def damages(content: bytes) -> Iterator[bytes | None]:
    last = len(content) - 1
    for bit, position in ((0, 0), (3, last // 2), (7, last)):
        wrong = bytearray(content)
        wrong[position] ^= 1 << bit
        yield bytes(wrong)
    yield content[:-1]
    yield b""
    yield content + b"\0"
    yield None


def damage(path: Path) -> Iterator[None]:
    """Damage a file in one way after another, and restore it in the end."""
    content = path.read_bytes()
    try:
        for wrong in damages(content):
            if wrong is None:
                path.unlink()
            else:
                path.write_bytes(wrong)
            yield
    finally:
        path.write_bytes(content)


def check_damages(store: Path, path: Path, name: str) -> None:
    for _ in damage(path):
        problems = verify(store)
        assert problems
        assert any(name in problem for problem in problems), problems


@pytest.mark.parametrize("array", ARRAYS)
def test_any_damage_to_an_array_is_found(store: Path, array: str) -> None:
    chunks = [path for path in files_of(store / array) if path.name != "zarr.json"]
    assert chunks
    for path in {chunks[0], chunks[-1]}:
        check_damages(store, path, array)


@pytest.mark.parametrize("path", ["", *ARRAYS, *GROUPS])
def test_any_damage_to_metadata_is_found(store: Path, path: str) -> None:
    name = f"{path}/zarr.json".lstrip("/")
    check_damages(store, store / name, name)


def test_any_damage_to_the_manifest_is_found(store: Path) -> None:
    for _ in damage(store / "manifest.json"):
        (problem,) = verify(store)
        assert "manifest.json" in problem


def test_every_bit_of_a_chunk_counts(store: Path) -> None:
    path = store / "obs" / "length" / "c" / "0"
    content = path.read_bytes()
    group = SealedGroup.open(store, KIND, VERSION)
    try:
        for position in range(len(content)):
            for bit in range(8):
                wrong = bytearray(content)
                wrong[position] ^= 1 << bit
                path.write_bytes(wrong)
                with pytest.raises(DamagedStoreError, match=r"obs/length\[0:1\] of .* damaged"):
                    group.read("obs/length", 0, 1)
    finally:
        path.write_bytes(content)


def test_chunks_that_changed_places_are_found(store: Path) -> None:
    first, second = (store / "X" / "data" / "c" / name for name in "01")
    contents = first.read_bytes(), second.read_bytes()
    try:
        first.write_bytes(contents[1])
        second.write_bytes(contents[0])
        assert verify(store) == ["the values of X/data have changed since they were written"]
    finally:
        first.write_bytes(contents[0])
        second.write_bytes(contents[1])


@pytest.mark.parametrize("name", ["notes.txt", "X/data/c/99", "X/data/c/0.partial", "a/zarr.json"])
def test_a_file_too_many_is_found(store: Path, name: str) -> None:
    path = store / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"")
    assert verify(store) == [f"{name} does not belong to the store"]
    path.unlink()


def test_every_problem_is_named_at_once(store: Path) -> None:
    damaged = [store / "X" / "data" / "c" / "1", store / "obs" / "zarr.json"]
    contents = [path.read_bytes() for path in damaged]
    try:
        for path in damaged:
            path.unlink()
        assert verify(store) == ["obs/zarr.json is missing", "the chunk X/data/c/1 is missing"]
    finally:
        for path, content in zip(damaged, contents, strict=True):
            path.write_bytes(content)


def test_a_place_without_a_store_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no store at "):
        verify(tmp_path / "c")
