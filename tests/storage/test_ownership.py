"""Nothing is written to a folder of somebody else; ours carries a mark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from atd_dask.errors import InputError
from atd_dask.stages.storing import store_texts
from atd_dask.storage.checkpoints import Checkpoints
from atd_dask.storage.locations import MARK, Location
from atd_dask.storage.locks import NAME, Owner
from atd_dask.storage.ownership import claim_folder, hold_output
from atd_dask.sweeps.journal import Journal
from tests.storage.corpora import write_corpus


def list_names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("scheme", ["", "memory://"])
def test_a_new_folder_is_marked_first(tmp_path: Path, scheme: str) -> None:
    output = f"{scheme}{tmp_path}/new/out"
    claim_folder(output)
    claim_folder(output)
    assert Location.of(output).names() == [MARK]


def test_what_a_file_system_puts_there_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    (tmp_path / ".DS_Store").touch()
    claim_folder(str(tmp_path))
    assert (tmp_path / MARK).is_file()


@pytest.mark.parametrize(
    "path",
    [
        "checkpoints/train/notes.txt",
        "journal/a",
        "corpus/test-texts.zarr/zarr.json",
        "report.html",
        "result.json",
        "clusters.csv",
        "run.json",
        "state.json",
    ],
)
def test_a_folder_of_others_is_refused_and_stays_as_it_is(tmp_path: Path, path: str) -> None:
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text('{"mine": 1}')
    before = list_names(tmp_path)
    first = path.partition("/")[0]
    with (
        pytest.raises(InputError, match=rf"one that atd-dask made, but .* holds {first}: choose "),
        hold_output(str(tmp_path), print),
    ):
        pytest.fail("it is not ours")
    assert list_names(tmp_path) == before
    assert file.read_text() == '{"mine": 1}'


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("run.json", json.dumps({"format": "atd-dask-run/1"})),
        ("result.json", json.dumps({"format": "atd-dask-result/1"})),
        ("state.json", json.dumps({"format": "atd-dask-sweeps/1"})),
        ("models/0001/run.json", json.dumps({"format": "atd-dask-run/1"})),
        ("run/run.json", json.dumps({"format": "atd-dask-run/1"})),
        pytest.param(NAME, Owner.here().write().decode(), id=NAME),
    ],
)
def test_a_folder_of_an_earlier_version_stays_usable(
    tmp_path: Path, path: str, content: str
) -> None:
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text(content)
    (tmp_path / "clusters.csv").touch()
    claim_folder(str(tmp_path))
    assert (tmp_path / MARK).is_file()


def test_a_folder_with_a_store_of_an_earlier_version_stays_usable(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    write_corpus(tmp_path / "corpus" / "train.zarr", n_docs=3)
    claim_folder(str(tmp_path))
    assert (tmp_path / MARK).is_file()


@pytest.mark.parametrize("content", ["", "{", '{"format": "other"}'])
def test_a_damaged_mark_is_written_again(tmp_path: Path, content: str) -> None:
    claim_folder(str(tmp_path))
    whole = (tmp_path / MARK).read_text()
    (tmp_path / MARK).write_text(content)
    claim_folder(str(tmp_path))
    assert (tmp_path / MARK).read_text() == whole


def test_a_file_and_a_place_that_cannot_be_written_are_sentences(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="output must be a folder, but /dev/null is a file"):
        claim_folder("/dev/null")
    with pytest.raises(InputError, match=r"output must be a folder, but .*file is a file"):
        claim_folder(str(tmp_path / "file"))
    with pytest.raises(InputError, match="output must be writable, got /proc/nothing: "):
        claim_folder("/proc/nothing")


def test_clearing_checkpoints_leaves_files_of_others(tmp_path: Path) -> None:
    checkpoints = Checkpoints(str(tmp_path / "train"), "key")
    checkpoints.save("piece", {}, {})
    (tmp_path / "train" / "notes.txt").touch()
    checkpoints.clear()
    assert list_names(tmp_path / "train") == ["notes.txt"]
    (tmp_path / "train" / "notes.txt").unlink()
    checkpoints.save("piece", {}, {})
    checkpoints.clear()
    assert not (tmp_path / "train").exists()


def test_tidying_a_journal_leaves_files_of_others(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path))
    Checkpoints(str(tmp_path), "journal").save("old", {}, {})
    (tmp_path / "notes.txt").touch()
    journal.tidy()
    assert list_names(tmp_path) == ["notes.txt"]


class NoTexts:
    has_texts = False


def test_texts_of_others_are_not_removed(tmp_path: Path) -> None:
    from atd_dask.config.run_config import RunConfig

    path = tmp_path / "corpus" / "test-texts.zarr"
    path.mkdir(parents=True)
    (path / "letters.txt").touch()
    config = RunConfig(output=str(tmp_path))
    with pytest.raises(InputError, match="holds something else"):
        store_texts(config, "test", NoTexts(), "digest", None)  # type: ignore[arg-type]
    assert list_names(path) == ["letters.txt"]


@pytest.fixture(autouse=True)
def _tidy_memory() -> Iterator[None]:
    import fsspec

    yield
    with suppress(FileNotFoundError):
        fsspec.filesystem("memory").rm("/tmp", recursive=True)
