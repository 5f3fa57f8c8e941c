from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from atd_dask.errors import DamagedStoreError, InputError
from atd_dask.storage.groups import TEXT
from atd_dask.storage.locations import MANIFEST, UNFINISHED, Location
from atd_dask.storage.manifest import (
    ArrayRecord,
    ContentHash,
    Manifest,
    check_format,
    read_manifest,
)

RECORD = ArrayRecord((2, 3), "int32", "00ff")
SMALL = Manifest("atd-dask-corpus/1", {"documents": 2}, {"X/data": RECORD}, {"zarr.json": "12ab"})


def test_numbers_are_hashed_as_little_endian_bytes() -> None:
    big = ContentHash()
    big.update(np.array([[1, 2], [3, 4]], dtype=">i4").T)
    expected = hashlib.sha256(np.array([1, 3, 2, 4], dtype="<i4").tobytes())
    assert big.hexdigest() == expected.hexdigest()


def test_strings_are_hashed_with_their_lengths() -> None:
    content = ContentHash()
    content.update(np.array(["é\0", ""], dtype=TEXT))
    expected = hashlib.sha256(b"\x03" + bytes(7) + "é\0".encode() + bytes(8))
    assert content.hexdigest() == expected.hexdigest()


def test_the_hash_does_not_depend_on_the_pieces() -> None:
    for values in (np.arange(10), np.array(["ab", "c", "", "d"], dtype=TEXT)):
        whole, pieces = ContentHash(), ContentHash()
        whole.update(values)
        pieces.update(values[:3])
        pieces.update(values[3:])
        assert whole.hexdigest() == pieces.hexdigest()


def test_a_manifest_comes_back() -> None:
    assert Manifest.from_bytes(SMALL.to_bytes()) == SMALL
    assert json.loads(SMALL.to_bytes())["digest"] == SMALL.digest


def test_any_flipped_bit_and_any_lost_end_is_noticed() -> None:
    content = SMALL.to_bytes()
    for position in range(len(content)):
        for bit in range(8):
            wrong = bytearray(content)
            wrong[position] ^= 1 << bit
            with pytest.raises(ValueError, match=r"it cannot be read|does not match"):
                Manifest.from_bytes(bytes(wrong))
        with pytest.raises(ValueError, match=r"it cannot be read|does not match"):
            Manifest.from_bytes(content[:position])


@pytest.mark.parametrize(
    "content", [b"[]", b"3", b'{"arrays": []}', b"\xff", b'{"arrays": {"a": 1}}']
)
def test_other_json_is_no_manifest(content: bytes) -> None:
    with pytest.raises(ValueError, match="it cannot be read"):
        Manifest.from_bytes(content)


def test_the_digest_depends_on_the_content_alone() -> None:
    assert replace(SMALL, format="atd-dask-corpus/2", metadata={}).digest == SMALL.digest
    for other in (
        replace(RECORD, sha256="01ff"),
        replace(RECORD, shape=(3, 2)),
        replace(RECORD, dtype="int64"),
    ):
        assert replace(SMALL, arrays={"X/data": other}).digest != SMALL.digest


@pytest.fixture
def location(tmp_path: Path) -> Location:
    return Location.of(tmp_path / "store")


def test_nothing_there_is_said(location: Location) -> None:
    with pytest.raises(InputError, match=r"there is no store at .*store: ingest it first"):
        read_manifest(location)


def test_a_zarr_group_of_another_program_is_refused(location: Location) -> None:
    location.write("zarr.json", b"{}")
    with pytest.raises(InputError, match="not a finished store of atd-dask, it has no manifest"):
        read_manifest(location)


def test_an_interrupted_move_is_refused(location: Location) -> None:
    location.write(MANIFEST, UNFINISHED)
    with pytest.raises(InputError, match="not a finished store, its writing was interrupted"):
        read_manifest(location)


def test_a_damaged_manifest_is_refused(location: Location) -> None:
    location.write(MANIFEST, SMALL.to_bytes()[:-1])
    with pytest.raises(DamagedStoreError, match=r"manifest.json of .*store is damaged"):
        read_manifest(location)


@pytest.mark.parametrize("name", ["atd-dask-corpus", "corpus/1", "atd-dask-corpus/x", ""])
def test_a_manifest_without_a_format_of_ours_is_refused(location: Location, name: str) -> None:
    location.write(MANIFEST, replace(SMALL, format=name).to_bytes())
    with pytest.raises(InputError, match=f"not a store of atd-dask, its format is '{name}'"):
        read_manifest(location)


def test_kind_and_version_must_fit() -> None:
    check_format(SMALL, "corpus", 1, "here")
    check_format(SMALL, "corpus", 2, "here")
    with pytest.raises(InputError, match="here must be a model store, but it is a corpus store"):
        check_format(SMALL, "model", 1, "here")
    newer = replace(SMALL, format="atd-dask-corpus/12")
    with pytest.raises(
        InputError, match=r"format atd-dask-corpus/12, .* up to version 1: install a newer"
    ):
        check_format(newer, "corpus", 1, "here")
