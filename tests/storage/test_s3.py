"""Stores behind a real S3 endpoint."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from atd_dask.errors import DamagedStoreError, InputError
from atd_dask.storage import locks
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.inspection import describe
from atd_dask.storage.locations import MANIFEST, Location
from atd_dask.storage.verification import verify
from tests.s3 import serve_s3
from tests.storage.corpora import write_corpus

pytest.importorskip("s3fs", reason="needs the extra s3")


@pytest.fixture(scope="module")
def s3() -> Iterator[Any]:
    with serve_s3() as filesystem:
        yield filesystem


@pytest.fixture
def url(s3: Any, request: pytest.FixtureRequest) -> str:
    return f"s3://bucket/{request.node.name}/c.zarr"


def names_beside(s3: Any, url: str) -> list[str]:
    parent = url.removeprefix("s3://").rpartition("/")[0]
    return sorted(path.rpartition("/")[2] for path in s3.ls(parent, detail=False, refresh=True))


def test_a_store_is_written_replaced_and_read(s3: Any, url: str) -> None:
    write_corpus(url, seed=1, n_docs=50)
    store = write_corpus(url, seed=2)
    local = write_corpus("memory://beside-s3", seed=2)
    assert store.digest == local.digest
    assert store.ids() == local.ids()
    copy = pickle.loads(pickle.dumps(store))
    np.testing.assert_array_equal(copy.block(0).counts, local.block(0).counts)
    assert verify(url) == []
    assert describe(url)["documents"] == 20
    assert names_beside(s3, url) == ["c.zarr"]


def test_damage_is_found(s3: Any, url: str) -> None:
    store = write_corpus(url)
    path = url.removeprefix("s3://")
    content = s3.cat_file(f"{path}/X/data/c/0")
    s3.pipe_file(f"{path}/X/data/c/0", content[:-1] + bytes([content[-1] ^ 1]))
    (problem,) = verify(url)
    assert problem.startswith("X/data[0:")
    s3.rm_file(f"{path}/X/data/c/0")
    assert verify(url) == ["the chunk X/data/c/0 is missing"]
    with pytest.raises(DamagedStoreError, match="the chunk X/data/c/0 is missing"):
        store.block(0)


def test_a_death_in_the_middle_of_the_move_is_mended_by_the_next_writer(
    s3: Any, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_corpus(url, seed=1)

    def die(*arguments: object) -> None:
        raise KeyboardInterrupt("dead")

    with monkeypatch.context() as patch:
        patch.setattr(Location, "copy_to", die)
        patch.setattr(Location, "remove", die)
        with pytest.raises(KeyboardInterrupt, match="dead"):
            write_corpus(url, seed=2)
    assert len(names_beside(s3, url)) == 2
    with pytest.raises(InputError, match="not a finished store, its writing was interrupted"):
        CorpusStore.open(url)
    write_corpus(url, seed=3)
    assert verify(url) == []
    assert names_beside(s3, url) == ["c.zarr"]


def test_other_objects_are_never_replaced(s3: Any, url: str) -> None:
    s3.pipe_file(f"{url}/notes.txt", b"mine")
    with pytest.raises(InputError, match="holds something else"):
        write_corpus(url)
    with pytest.raises(InputError, match=f"not a finished store of atd-dask, it has no {MANIFEST}"):
        CorpusStore.open(url)
    assert s3.cat_file(f"{url}/notes.txt") == b"mine"


def test_a_bucket_that_is_not_there_is_one_sentence(s3: Any) -> None:
    with pytest.raises(InputError, match=r"s3://nowhere/c cannot be used: .*bucket does not exist"):
        write_corpus("s3://nowhere/c")
    with pytest.raises(InputError, match="there is no store at s3://nowhere/c"):
        CorpusStore.open("s3://nowhere/c")


def test_only_one_run_writes_a_prefix(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "PAUSE", 0.05)
    output = "s3://bucket/runs/a"
    s3.pipe_file(f"{output}/result.json", b"{}")
    with locks.lock_folder(output, print):
        owner = locks.read_owner(output)
        assert owner is not None
        with (
            pytest.raises(locks.LockedError, match=f"but process {owner.pid} on "),
            locks.lock_folder(output, print),
        ):
            pass
        # The store itself refuses a second lock, whatever was read before.
        assert not locks.FolderLock(output)._create()
        assert locks.read_owner(output) == owner
    assert names_beside(s3, f"{output}/x") == ["result.json"]


def test_a_run_in_a_bucket_that_is_not_there_is_one_sentence(s3: Any) -> None:
    with (
        pytest.raises(InputError, match=r"output must be writable, got s3://nowhere/out: .*bucket"),
        locks.lock_folder("s3://nowhere/out", print),
    ):
        pass
