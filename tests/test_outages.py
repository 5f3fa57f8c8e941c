"""A store that does not answer is told apart from a path that is wrong: the one ends a command with
status 1, so that a schedule tries again, the other with 2."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
from collections.abc import Iterator
from pathlib import Path

import fsspec.asyn
import pytest
from aiohttp import ClientConnectionResetError, ServerDisconnectedError
from botocore.exceptions import EndpointConnectionError, NoCredentialsError, ReadTimeoutError
from fsspec.implementations.memory import MemoryFileSystem
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from atd_dask.config.loader import load
from atd_dask.config.run_config import RunConfig
from atd_dask.errors import InputError, OutageError
from atd_dask.outages import explain_outage, is_outage
from atd_dask.stages.run_record import record_run
from atd_dask.storage import locations
from atd_dask.storage.groups import _WritingStore
from atd_dask.storage.locations import Location, Partial
from atd_dask.storage.locks import NAME, lock_folder
from atd_dask.storage.ownership import claim_folder
from atd_dask.storage.runs import read_run
from atd_dask.text.readers.files import look_at_files
from tests.chaos.damage import CONFIG
from tests.chaos.gate import gate_before
from tests.s3 import serve_s3

GONE = EndpointConnectionError(endpoint_url="http://127.0.0.1:1")


@pytest.mark.parametrize(
    "error",
    [
        GONE,
        ReadTimeoutError(endpoint_url="http://127.0.0.1:1"),
        ServerDisconnectedError(),
        OSError(errno.EIO, "Service Unavailable"),
        OSError(errno.EBUSY, "Please reduce your request rate."),
        OSError(errno.ESTALE, "Stale file handle"),
        ConnectionResetError(),
        TimeoutError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_outage_is_a_sentence_with_the_remedy(error: Exception) -> None:
    told = str(explain_outage(error, "s3://bucket/out"))
    assert told.startswith("s3://bucket/out is not responding properly (")
    assert told.endswith("): check that it is up, then run the same command again to resume")


@pytest.mark.parametrize(
    "error",
    [FileNotFoundError(), PermissionError(errno.EACCES, "x"), NoCredentialsError(), ValueError()],
    ids=lambda error: type(error).__name__,
)
def test_a_mistake_is_no_outage(error: Exception) -> None:
    assert explain_outage(error) is None


@pytest.fixture
def gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """An object store that nobody can reach."""

    def fail(*given: object, **options: object) -> None:
        raise GONE

    for name in ("cat_file", "pipe_file", "ls", "find", "info", "isfile", "isdir", "rm", "copy"):
        monkeypatch.setattr(MemoryFileSystem, name, fail)


@pytest.mark.usefixtures("gone")
def test_whoever_reads_or_writes_says_so() -> None:
    location = Location.of("memory://gone/out")
    for act in (
        location.names,
        location.files,
        location.is_file,
        lambda: location.read("a"),
        lambda: location.write("a", b""),
        lambda: location.remove_files(["a"]),
        lambda: location.copy_to(location, ["a"]),
        lambda: Partial(location),
    ):
        with pytest.raises(OutageError, match=r"^memory://gone/out is not responding"):
            act()
    with pytest.raises(OutageError, match=r"^memory://gone/out is not responding"):
        claim_folder("memory://gone/out")
    with pytest.raises(OutageError, match=r"^memory://gone/a\.jsonl is not responding"):
        look_at_files("memory://gone/a.jsonl", lambda size: None)


def test_a_file_that_is_not_there_is_still_a_mistake() -> None:
    with pytest.raises(InputError, match="no such file"):
        look_at_files("memory://gone/a.jsonl", lambda size: None)


def make_config(folder: Path) -> RunConfig:
    for name in ("normal.jsonl", "batch.jsonl"):
        (folder / name).touch()
    (folder / "conf.yaml").write_text(CONFIG)
    return load(folder / "conf.yaml", [f"output={folder / 'out'}"])


class LostClient:
    """A client of Dask that has given up its scheduler."""

    def scheduler_info(self, **options: object) -> dict[str, object]:
        return {}


def test_a_cluster_that_is_lost_does_not_fail_a_finished_stage(tmp_path: Path) -> None:
    config = make_config(tmp_path)
    with record_run(config, LostClient(), [], "id") as record:  # type: ignore[arg-type]
        with record.stage("report", fresh=True):
            pass
        assert not record.all_reused
    run = read_run(config.output)
    assert run is not None
    assert (run.status, run.cluster) == ("finished", None)


def test_a_run_that_ends_for_an_outage_does_not_wait_for_the_store_again(tmp_path: Path) -> None:
    """Each further call would take minutes."""
    output = tmp_path / "out"
    config = make_config(tmp_path)
    with (
        pytest.raises(OutageError, match="no answer"),
        lock_folder(str(output), lambda line: None),
        record_run(config, None, [], "id"),  # type: ignore[arg-type]
    ):
        raise OutageError("no answer")
    assert [path.name for path in output.iterdir()] == [NAME]


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Location]:
    """A place in an object store that takes connections and never answers."""
    s3fs = pytest.importorskip("s3fs", reason="needs the extra s3")
    monkeypatch.setattr(locations, "ANSWER", 0.5)
    with serve_s3():
        host, port = os.environ["AWS_ENDPOINT_URL"].removeprefix("http://").split(":")
        with gate_before(host, int(port)) as gate:
            monkeypatch.setenv("AWS_ENDPOINT_URL", gate.endpoint)
            s3fs.S3FileSystem.clear_instance_cache()
            gate.mode = "silent"
            yield Location.of("s3://bucket/silent")


def test_a_store_that_never_answers_is_given_up(silent: Location) -> None:
    """Its client would wait forever for leave to send what is to be written."""
    with pytest.raises(OutageError, match="s3://bucket/silent is not responding properly"):
        silent.write("name", b"content")
    store = _WritingStore(silent.zarr_store(read_only=False))
    with pytest.raises(TimeoutError, match=r"^$") as caught:
        sync(store.set("a/c/0", default_buffer_prototype().buffer.from_bytes(b"content")))
    assert is_outage(caught.value)


async def forget(error: Exception) -> None:
    """Leave a task behind whose error nobody asks for."""

    async def fail() -> None:
        raise error

    task = asyncio.create_task(fail())
    await asyncio.wait([task])
    del task
    gc.collect()


def test_what_a_broken_connection_leaves_behind_is_not_logged(
    silent: Location, caplog: pytest.LogCaptureFixture
) -> None:
    """The request that broke says so; its tasks would say it again, with a traceback."""
    store = _WritingStore(silent.zarr_store(read_only=False))
    with pytest.raises(TimeoutError, match=r"^$"):
        sync(store.set("a/c/0", default_buffer_prototype().buffer.from_bytes(b"content")))
    backend, _ = silent._backend()
    for error in (ClientConnectionResetError("closing"), ValueError("a defect")):
        fsspec.asyn.sync(backend.loop, forget, error)
        sync(forget(error))
    told = [str(record.exc_info[1]) for record in caplog.records if record.exc_info]
    assert told == ["a defect", "a defect"]
