"""Files that are damaged, in short; `python -m tests.chaos` damages all of them in all ways."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from atd_dask.errors import DamagedStoreError
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.verification import verify_files
from tests.chaos.damage import DAMAGES, Run, Sweeps, choose, list_files
from tests.chaos.outcomes import Tally
from tests.clusters import calm_client


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    with calm_client() as client:
        yield Run(tmp_path_factory.mktemp("damage"), client)


NAMED = [
    ("result.json", "a digit"),
    ("clusters.csv", "removed"),
    ("scores.json", "cut in half"),
    ("SHA256SUMS", "a byte in the middle"),
    ("stages/ingest.json", "a digit"),
    ("stages/detect.json", "emptied"),
    ("run.json", "a byte in the middle"),
    ("atd-dask-output.json", "removed"),
    ("corpus/train.zarr/manifest.json", "removed"),
    ("corpus/test-texts.zarr/manifest.json", "removed"),
    ("corpus/test.zarr/X/data/c/0", "a byte in the middle"),
    ("null_model.zarr/manifest.json", "emptied"),
]


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_a_finished_run_is_mended(run: Run, path: str, name: str) -> None:
    tally = Tally()
    run.try_case(run.finished, Path(path), name, tally)
    assert tally.bad == []
    (counts,) = tally.counts.values()
    assert counts["one sentence"] == 0, "all of it can be made again"


def test_a_run_that_was_cut_off_is_mended(run: Run) -> None:
    tally = Tally()
    for path, name in choose(run.cases[run.cut_off], 4):
        run.try_case(run.cut_off, path, name, tally)
    assert tally.bad == []


def test_a_changed_number_is_not_reported(run: Run, tmp_path: Path) -> None:
    """The result itself is as well-formed as before, but a p-value is another one."""
    output = tmp_path / "out"
    shutil.copytree(run.finished, output)
    result = json.loads((output / "result.json").read_text())
    result["clusters"][-1]["search_p_value"] = 1e-6
    (output / "result.json").write_text(json.dumps(result, indent=1))
    assert any("result.json is not as it was written" in line for line in verify_files(output))
    (told,) = run.start(output)
    assert "result.json is not as it was written" in told
    assert told.endswith("running detect again")
    assert run.read(output) == run.expected


def test_a_run_folder_can_be_moved(run: Run, tmp_path: Path) -> None:
    """Nothing in it says where it was; the stores that it uses are its own."""
    old, new = tmp_path / "old", tmp_path / "new"
    shutil.copytree(run.finished, old)
    shutil.copytree(old, new)
    for path in list_files(new):
        if path.suffix in (".json", ".csv") and path.name != "run.json":
            assert str(run.finished).encode() not in (new / path).read_bytes(), path
    shutil.rmtree(old / "corpus")
    assert run.start(new) == []
    assert run.read(new) == run.expected
    # A store of the copy is missed although the original has it.
    shutil.rmtree(new / "corpus" / "train.zarr")
    assert run.start(new) != []
    assert CorpusStore.open(new / "corpus" / "train.zarr").n_docs > 0


@pytest.fixture(scope="module")
def sweeps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sweeps]:
    with calm_client() as client:
        yield Sweeps(tmp_path_factory.mktemp("sweeps"), client)


@pytest.mark.parametrize(
    ("path", "name", "outcome"),
    [
        ("history.jsonl", "a digit", "same"),
        ("history.jsonl", "cut in half", "same"),
        ("models/0001/null_model.zarr/manifest.json", "removed", "same"),
        ("state.json", "a digit", "one sentence"),
        ("sweeps/0003/corpus/new.zarr/X/data/c/0", "a byte in the middle", "one sentence"),
        ("models/0001/corpus/train.zarr/manifest.json", "removed", "one sentence"),
    ],
)
def test_a_folder_of_sweeps(sweeps: Sweeps, path: str, name: str, outcome: str) -> None:
    tally = Tally()
    sweeps.try_case(Path(path), name, tally)
    assert tally.bad == []
    (counts,) = tally.counts.values()
    assert counts == {outcome: 1}


def test_what_cannot_be_made_again_names_the_remedy(sweeps: Sweeps) -> None:
    path = sweeps.copy() / "state.json"
    content = DAMAGES["a digit"]
    assert content is not None
    path.write_bytes(content(path.read_bytes()))
    with pytest.raises(
        DamagedStoreError, match=r"state\.json is not as .*: restore it from a backup"
    ):
        sweeps.sweep()
