"""The folder of a run as a whole: `run.json`, which tells how it went, and `result.json`."""

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

# Of a cluster, what is long and for programs.
DETAILS = frozenset({"documents", "growth", "bootstrap_scores", "reference_support"})


@dataclass(frozen=True)
class RunFolders:
    """Where training and detection leave what they make."""

    model: RunLayout  # the null model, and what it takes to go on
    results: tuple[RunLayout, ...]  # written to the first; another may have the same already

    @property
    def result(self) -> RunLayout:
        return self.results[0]


def run_folders(output: str) -> RunFolders:
    """The folders of a run that is made once."""
    layout = RunLayout(output)
    return RunFolders(layout, (layout, layout.repeat(1)))


def repeat_folders(output: str, repeat: int) -> RunFolders:
    """The folders of a repeat, from 1 on. The first takes the null model of the run itself and
    gives the result that the run would have alone; the others have both to themselves."""
    layout = RunLayout(output)
    own = layout.repeat(repeat)
    return RunFolders(layout, (own, layout)) if repeat == 1 else RunFolders(own, (own,))


def write_run(output: str, record: RunRecord) -> None:
    # Text that no encoding can hold, such as a broken file name, is escaped.
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
    """The result, or None where there is none or it is not ours.

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
        raise DamagedStoreError(f"{error}: run the job again, and it is made again") from None
    try:
        return Result.from_json(told) if isinstance(told, dict) and _is_ours(told) else None
    except InputError as error:
        raise InputError(f"{path} is damaged: {error}") from error


def list_places(output: str) -> dict[str, str]:
    """Where what a run made is, as far as it is there."""
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
    """What the folder of a run holds."""

    writer: str | None  # who is writing it just now
    run: RunRecord | None
    result: Result | None
    places: dict[str, str]  # where what people look for is

    def to_json(self) -> JsonObject:
        """As JSON, without the details of clusters."""
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
    return read_file(RunLayout(output).stage_note(stage))


def _is_ours(content: JsonObject) -> bool:
    return str(content.get("format")).startswith("atd-dask-")
