"""The commands `inspect` and `verify`."""

from __future__ import annotations

import json
from pathlib import Path

from atd_dask.storage.locks import lock_folder
from tests.cli.test_command import RESULT, STAGES, invoke


def test_inspect_and_verify(tmp_path: Path) -> None:
    from tests.storage.corpora import write_corpus

    path = str(tmp_path / "a.zarr")
    write_corpus(path)
    result = invoke("inspect", path)
    assert result.exit_code == 0
    assert "documents: 20" in result.stdout.splitlines()
    result = invoke("inspect", path, "--json")
    assert json.loads(result.stdout)["documents"] == 20
    result = invoke("verify", path)
    assert (result.exit_code, result.output) == (0, f"{path}: no damage\n")
    chunk = max((file for file in Path(path).rglob("c/*") if file.is_file()), key=str)
    chunk.unlink()
    result = invoke("verify", path)
    assert result.exit_code == 1
    (line,) = result.stdout.splitlines()
    assert line.startswith(f"{path}: ")
    assert "missing" in line


RUN = {
    "format": "atd-dask-run/1",
    "name": "c\x1b[31m",
    "id": "0123",
    "status": "failed",
    "error": "InputError: no",
    "command": ["atd-dask", "run", "c.yaml"],
    "started": "2026-01-02T03:04:05.678+00:00",
    "ended": "2026-01-02T03:04:17.978+00:00",
    "seconds": 12.3,
    "stages": {
        "ingest": {
            "seconds": 0.0,
            "reused": True,
            "made": {"started": "then", "seconds": 9.5, "peak_memory_bytes": 1},
        },
        "train": {
            "seconds": 3.25,
            "reused": False,
            "made": {"started": "then", "seconds": 3.25, "peak_memory_bytes": 2},
            "peak_memory_bytes": 2,
        },
        "detect": {"seconds": 1.5, "reused": False, "made": None},
    },
    "peak_memory_bytes": 2**28,
    "peak_memory_bytes_of": {"client": 2**28, "workers": 0, "largest_worker": 0},
    "cluster": {
        "address": "tcp://x:1",
        "dashboard": None,
        "workers": 2,
        "threads": 4,
        "memory_bytes": 0,
        "smallest_worker_bytes": 0,
        "smallest_free_bytes": 0,
    },
    "versions": {"python": "3.12.1"},
    "configuration": {"seed": 1},
}


def test_inspect_a_run(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(RUN, indent=1))
    result = invoke("inspect", str(tmp_path))
    lines = [
        "c�[31m: failed after 12.3 s, InputError: no",
        "started: 2 January 2026, 03:04 UTC",
        "ingest: 9.5 s, reused",
        "train: 3.2 s",
        "detect: 1.5 s, not finished",
        "cluster: 2 workers, 4 threads at tcp://x:1",
        "peak memory: 256 MiB",
        "versions: python 3.12.1",
    ]
    assert (result.exit_code, result.stdout.splitlines()) == (
        0,
        [*lines, f"run: {tmp_path}/run.json"],
    )
    found = RESULT.to_json()
    (tmp_path / "result.json").write_text(json.dumps(found))
    with lock_folder(str(tmp_path), print):
        result = invoke("inspect", str(tmp_path))
    assert result.stdout.startswith("being written by process ")
    assert result.stdout.splitlines()[1:] == [
        *lines,
        "documents: train 1,234, test 5",
        "null model: 7 topics",
        *STAGES["detect"][1],
        f"result: {tmp_path}/result.json",
        f"run: {tmp_path}/run.json",
    ]
    told = json.loads(invoke("inspect", str(tmp_path), "--json").stdout)
    assert (told["kind"], told["writer"], told["run"]) == ("run", None, RUN)
    for name in ("documents", "growth", "bootstrap_scores", "reference_support"):
        del found["clusters"][0][name]
    assert told["result"] == found
    (tmp_path / "run.json").unlink()
    lines = invoke("inspect", str(tmp_path)).stdout.splitlines()
    assert lines[0] == "documents: train 1,234, test 5"


def test_inspect_what_is_not_there(tmp_path: Path) -> None:
    result = invoke("inspect", str(tmp_path / "none.zarr"))
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
