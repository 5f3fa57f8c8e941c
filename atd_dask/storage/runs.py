"""The folder of a run as a whole: `run.json`, its record, and `result.json`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from atd_dask.errors import DamagedStoreError, InputError
from atd_dask.json_records import JsonObject
from atd_dask.result_types import Result
from atd_dask.run_types import RunRecord
from atd_dask.storage.atomic_files import read_file
from atd_dask.storage.checksums import read_checked
from atd_dask.storage.locations import Location
from atd_dask.storage.locks import read_owner
from atd_dask.storage.run_layout import RunLayout
from atd_dask.storage.sealed_json import read_sealed, write_sealed

# Fields of a cluster that are long and meant for programs.
DETAILS = frozenset({"documents", "growth", "bootstrap_scores", "reference_support"})


@dataclass(frozen=True)
class RunFolders:
    """Where training and detection write."""

    model: RunLayout  # the null model, and the checkpoints of training
    results: tuple[
        RunLayout, ...
    ]  # write to the first; the others may already have the same result

    @property
    def result(self) -> RunLayout:
        return self.results[0]


def run_folders(output: str) -> RunFolders:
    """Return the folders of a run without repeats."""
    layout = RunLayout(output)
    return RunFolders(layout, (layout, layout.repeat(1)))


def repeat_folders(output: str, repeat: int) -> RunFolders:
    """Return the folders of a repeat, from 1. The first uses the null model of the run and has the
    same result as the run alone; the others have a null model of their own."""
    layout = RunLayout(output)
    own = layout.repeat(repeat)
    return RunFolders(layout, (own, layout)) if repeat == 1 else RunFolders(own, (own,))


def write_run(output: str, record: RunRecord) -> None:
    # Escapes text that cannot be encoded, such as a broken file name.
    write_sealed(RunLayout(output).record, record.to_json())


def read_run(output: str) -> RunRecord | None:
    """Read `run.json`. Return None if there is none, or if it is damaged or not ours: nothing
    depends on it."""
    try:
        content = read_sealed(RunLayout(output).record)
        return RunRecord.from_json(content) if content is not None and _is_ours(content) else None
    except (DamagedStoreError, InputError):
        return None


def read_result(output: str) -> Result | None:
    """Read the result. Return None if there is none, or if it is not ours.

    Raises
    ------
    DamagedStoreError
        If the file is not as it was written.
    """
    path = RunLayout(output).result
    try:
        content = read_checked(path)
        told = json.loads(content or b"null")
    except ValueError:
        return None
    except DamagedStoreError as error:
        raise DamagedStoreError(f"{error}: run the job again to recreate it") from None
    try:
        return Result.from_json(told) if isinstance(told, dict) and _is_ours(told) else None
    except InputError as error:
        raise InputError(f"{path} is damaged: {error}") from error


def list_outputs(output: str) -> dict[str, str]:
    """Return the paths of a run's results, as far as they exist."""
    there, layout = Location.of(output).names(), RunLayout(output)
    shown = {
        "result": layout.result,
        "documents": layout.documents,
        "report": layout.report,
        "run": layout.record,
    }
    return {what: path for what, path in shown.items() if layout.relative(path) in there}


@dataclass(frozen=True)
class RunSummary:
    """The content of a run folder."""

    writer: str | None  # the run that is writing to it
    run: RunRecord | None
    result: Result | None
    places: dict[str, str]  # the paths of the results, by name

    def to_json(self) -> JsonObject:
        """Return it as JSON, without the details of clusters."""
        result = None if self.result is None else self.result.to_json()
        for cluster in () if result is None else result["clusters"]:
            for name in DETAILS:
                del cluster[name]
        return {
            "kind": "run",
            "writer": self.writer,
            "run": None if self.run is None else self.run.to_json(),
            "result": result,
            "places": self.places,
        }


def describe_run(output: str) -> RunSummary | None:
    """Summarise the folder of a run; return None if there is no run."""
    run, result, owner = read_run(output), read_result(output), read_owner(output)
    if run is None and result is None:
        return None
    return RunSummary(None if owner is None else str(owner), run, result, list_outputs(output))


def has_report(output: str) -> bool:
    return "report" in list_outputs(output)


def is_finished(output: str, stages: Sequence[str]) -> bool:
    """Return whether all stages were finished once, perhaps from other inputs."""
    return all(read_note(output, stage) is not None for stage in stages)


def read_note(output: str, stage: str) -> bytes | None:
    """Return the note of a finished stage: the same bytes as long as the stage is reused."""
    return read_file(RunLayout(output).stage_note(stage))


def _is_ours(content: JsonObject) -> bool:
    return str(content.get("format")).startswith("atd-dask-")
