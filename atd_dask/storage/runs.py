"""The folder of a run as a whole: `run.json`, which tells how it went, and `result.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from atd_dask.errors import InputError
from atd_dask.result_types import Result
from atd_dask.storage.atomic_files import join, read_file, write_file
from atd_dask.storage.locations import Location
from atd_dask.storage.locks import read_owner

MODEL = "null_model.zarr"
RUN = "run.json"
RESULT = "result.json"
DOCUMENTS = "clusters.csv"
# What people look for in the folder of a run.
SHOWN = {"result": RESULT, "documents": DOCUMENTS, "report": "report.html", "run": RUN}
# Of a cluster, what is long and for programs.
DETAILS = frozenset({"documents", "growth", "bootstrap_scores", "reference_support"})


@dataclass(frozen=True)
class RunFolders:
    """Where training and detection leave what they make."""

    model: str  # the null model, and what it takes to go on
    results: tuple[str, ...]  # written to the first; another may have the same result already

    @property
    def result(self) -> str:
        return self.results[0]


def run_folders(output: str) -> RunFolders:
    """The folders of a run that is made once."""
    return RunFolders(output, (output, _repeat_folder(output, 1)))


def repeat_folders(output: str, repeat: int) -> RunFolders:
    """The folders of a repeat, from 1 on. The first takes the null model of the run itself and
    gives the result that the run would have alone; the others have both to themselves."""
    own = _repeat_folder(output, repeat)
    return RunFolders(output, (own, output)) if repeat == 1 else RunFolders(own, (own,))


def _repeat_folder(output: str, repeat: int) -> str:
    return join(output, "repeats", str(repeat))


def write_run(output: str, record: Mapping[str, Any]) -> None:
    # Text that no encoding can hold, such as a broken file name, is escaped.
    content = json.dumps(record, indent=1, allow_nan=False, default=str)
    write_file(join(output, RUN), content.encode("ascii") + b"\n")


def read_run(output: str) -> dict[str, Any] | None:
    """What `run.json` says, or None where there is none or it is not ours."""
    return _read_object(output, RUN)


def read_result(output: str) -> Result | None:
    """The result, or None where there is none or it is not ours."""
    told = _read_object(output, RESULT)
    try:
        return None if told is None else Result.from_json(told)
    except InputError as error:
        raise InputError(f"{join(output, RESULT)} is damaged: {error}") from error


def list_places(output: str) -> dict[str, str]:
    """Where what a run made is, as far as it is there."""
    there = Location.of(output).names()
    return {what: join(output, name) for what, name in SHOWN.items() if name in there}


@dataclass(frozen=True)
class RunSummary:
    """What the folder of a run holds."""

    writer: str | None  # who is writing it just now
    run: dict[str, Any] | None  # run.json
    result: Result | None
    places: dict[str, str]  # where what people look for is

    def to_json(self) -> dict[str, Any]:
        """As JSON, without the details of clusters."""
        result = None if self.result is None else self.result.to_json()
        for cluster in () if result is None else result["clusters"]:
            for name in DETAILS:
                del cluster[name]
        return {
            "kind": "run",
            "writer": self.writer,
            "run": self.run,
            "result": result,
            "places": self.places,
        }


def describe_run(output: str) -> RunSummary | None:
    """A summary of the folder of a run; None where there is no run."""
    run, result, owner = read_run(output), read_result(output), read_owner(output)
    if run is None and result is None:
        return None
    return RunSummary(None if owner is None else str(owner), run, result, list_places(output))


def has_report(output: str) -> bool:
    return "report" in list_places(output)


def is_finished(output: str, stages: Sequence[str]) -> bool:
    """Whether all stages were finished once; whether from the same things is for them to say."""
    return all(read_note(output, stage) is not None for stage in stages)


def read_note(output: str, stage: str) -> bytes | None:
    """What a stage noted when it was finished last: the same bytes as long as it is reused."""
    return read_file(join(output, "stages", f"{stage}.json"))


def _read_object(output: str, name: str) -> dict[str, Any] | None:
    try:
        content = json.loads(read_file(join(output, name)) or b"null")
    except ValueError:
        return None
    ours = isinstance(content, dict) and str(content.get("format")).startswith("atd-dask-")
    return content if ours else None


def corpus_path(output: str, part: str) -> str:
    """Where the store of a part is."""
    return join(output, "corpus", f"{part}.zarr")


def texts_path(output: str, part: str = "test") -> str:
    """Where the texts of a part are, if they are kept."""
    return join(output, "corpus", f"{part}-texts.zarr")


def model_path(output: str) -> str:
    """Where the null model is."""
    return join(output, MODEL)


def sweep_name(sweep: int) -> str:
    return f"{sweep:04d}"


def sweep_folder(output: str, sweep: int) -> str:
    return join(output, "sweeps", sweep_name(sweep))


def model_folder(output: str, generation: int) -> str:
    return join(output, "models", f"{generation:04d}")
