"""The folder of scheduled sweeps.

state.json          the committed state: the last sweep, the null model, the reported clusters, the
                    pending alerts. What it does not mention has not happened.
journal/            the documents and files that have been seen
models/0001/        a null model with its training documents
sweeps/0001/        a sweep: the folder of a run, and in addition
    plan.json           the plan; once it is written, the sweep is under way
    corpus/new.zarr     its new documents; next to it their texts, if they are kept
    corpus/known.zarr   the documents of all clusters so far
    sweep.json          its line of the history
    alert.json          its alert
history.jsonl       a line for each sweep
index.html          the same for people
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from atd_dask.errors import DamagedStoreError, InputError
from atd_dask.result_types import SweepLine
from atd_dask.storage.atomic_files import write_file
from atd_dask.storage.checksums import read_checked, write_checked
from atd_dask.storage.run_layout import RunLayout
from atd_dask.storage.sealed_json import read_sealed, write_sealed
from atd_dask.sweeps.alarm_series import AlarmSeries
from atd_dask.sweeps.journal import Journal, Segment

FORMAT = "atd-dask-sweeps/1"
# The remedy for damage that no sweep can repair.
RESTORE = "restore it from a backup, or start over in another folder with --output"


@dataclass(frozen=True, kw_only=True)
class ModelNote:
    """The null model in use."""

    generation: int
    since: int  # the first sweep that uses it
    reason: str  # why it was trained
    documents: int
    n_topics: int
    unseen_share: float  # in its validation documents
    log_likelihood: float  # of a word in its validation documents


@dataclass(frozen=True, kw_only=True)
class KnownCluster:
    """A reported cluster. It grows while new documents join it."""

    number: int
    words: tuple[str, ...]
    written: tuple[str, ...]  # the words as people write them
    p_value: float  # the one that decided
    sweeps: tuple[int, ...] = ()  # in which it was found or continued
    documents: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Drift:
    """How well the null model fits the new documents of a sweep."""

    sweep: int
    generation: int
    tokens: int
    unseen_tokens: int
    log_likelihood: float | None  # of a word; None if the model knows none
    words: tuple[str, ...] = ()  # new words of normal topics


@dataclass(frozen=True, kw_only=True)
class SweepState:
    """Everything that one sweep hands to the next."""

    key: str  # the settings that may not change
    sweep: int = 0
    model: ModelNote | None = None
    clusters: tuple[KnownCluster, ...] = ()
    known: int | None = None  # the sweep that has the documents of the clusters
    drift: tuple[Drift, ...] = ()  # under this model
    series: AlarmSeries | None = None  # the tests so far, and which of them raised an alarm
    segments: tuple[Segment, ...] = ()
    pending: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # sweep → channels

    def journal(self, output: str) -> Journal:
        return Journal(RunLayout(output).journal, self.segments)


def write_state(output: str, state: SweepState) -> None:
    write_sealed(RunLayout(output).state, {"format": FORMAT, **asdict(state)}, ascii_only=False)


def read_state(output: str) -> SweepState | None:
    """Return the state, or None if no sweep has started."""
    path = RunLayout(output).state
    try:
        told = read_sealed(path)
        if told is None:
            return None
        if told.pop("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT}")
        model, series = told.pop("model"), told.pop("series", None)
        return SweepState(
            model=None if model is None else ModelNote(**model),
            clusters=tuple(_read_cluster(cluster) for cluster in told.pop("clusters")),
            series=None if series is None else AlarmSeries.from_json(series),
            drift=tuple(_read_drift(drift) for drift in told.pop("drift")),
            segments=tuple(Segment(**segment) for segment in told.pop("segments")),
            pending={sweep: tuple(to) for sweep, to in told.pop("pending").items()},
            **told,
        )
    except DamagedStoreError as error:
        raise DamagedStoreError(f"{error}: {RESTORE}") from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DamagedStoreError(f"{path} is not as it was written ({error}): {RESTORE}") from error


def _read_cluster(told: dict[str, Any]) -> KnownCluster:
    told.setdefault("written", told["words"])  # earlier versions kept only the words
    for name in ("sweeps", "documents", "words", "written"):
        told[name] = tuple(told[name])
    return KnownCluster(**told)


def _read_drift(told: dict[str, Any]) -> Drift:
    return Drift(**{**told, "words": tuple(told.get("words", ()))})


def read_history(
    output: str, last: int, warn: Callable[[str], None]
) -> tuple[list[SweepLine], bool]:
    """Return the lines of all sweeps so far, and whether the history has all of them."""
    layout = RunLayout(output)
    lines: list[SweepLine] = []
    try:
        content = read_checked(layout.history) or b""
        for index, text in enumerate(content.splitlines(), 1):
            line = SweepLine.from_json(json.loads(text))
            if line.sweep != index or index > last:
                break
            lines.append(line)
    except (ValueError, TypeError, KeyError, AttributeError, DamagedStoreError):
        lines = []
        warn(f"{layout.history} is not as it was written: making it again")
    missing = range(len(lines) + 1, last + 1)
    for sweep in missing:
        lines.append(read_line(output, sweep))
    return lines, not missing


def read_line(output: str, sweep: int) -> SweepLine:
    """Return the line of a committed sweep."""
    path = RunLayout(output).sweep(sweep).line
    try:
        line = read_sealed(path)
        if line is None:
            raise DamagedStoreError(f"{path} is missing")
        return SweepLine.from_json(line)
    except (InputError, DamagedStoreError) as error:
        raise DamagedStoreError(
            f"the history lacks sweep {sweep}, and {error}: {RESTORE}"
        ) from None


def write_history(output: str, lines: Sequence[SweepLine], page: bytes) -> None:
    """Write the page, then the history: as long as the history lacks a line, both are written
    again."""
    layout = RunLayout(output)
    write_file(layout.history_page, page)
    text = "".join(json.dumps(line.to_json(), allow_nan=False) + "\n" for line in lines)
    write_checked(layout.history, text.encode())
