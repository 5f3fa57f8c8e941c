"""Notes of finished stages: what each was made from, and a summary of what it made."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from atd_dask.errors import AtdError, DamagedStoreError, InputError
from atd_dask.json_records import OMITTED, JsonObject, JsonRecord
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.locations import Location
from atd_dask.storage.models import read_digest
from atd_dask.storage.run_layout import RunLayout
from atd_dask.storage.sealed_json import read_sealed, write_sealed
from atd_dask.storage.texts import TextStore

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class TextsSummary(JsonRecord):
    """The texts that are kept of a part."""

    path: str
    digest: str


@dataclass(frozen=True, kw_only=True)
class SkippedDocuments(JsonRecord):
    """Documents that were skipped for the same reason."""

    documents: int
    first: str  # location of the first one


@dataclass(frozen=True, kw_only=True)
class PartSummary(JsonRecord):
    """A part of the corpus in its store."""

    path: str
    digest: str
    documents: int
    copies: int | None  # None if nobody looked for them
    tokens: int
    terms: int
    unseen_terms: int
    unseen_tokens: int
    skipped: Mapping[str, SkippedDocuments]  # by reason
    texts: TextsSummary | None = field(default=None, metadata=OMITTED)

    def is_whole(self) -> bool:
        """Return whether the stores are still there and unchanged."""
        try:
            return CorpusStore.open(self.path).digest == self.digest and (
                self.texts is None or TextStore.open(self.texts.path).digest == self.texts.digest
            )
        except AtdError:
            return False

    def placed(self, layout: RunLayout, part: str) -> PartSummary:
        """Return the summary with paths in a folder: notes have none, because the folder may be
        moved."""
        texts = self.texts and replace(self.texts, path=layout.texts(part))
        return replace(self, path=layout.corpus(part), texts=texts)


CorpusSummary = Mapping[str, PartSummary]  # by the name of the part


@dataclass(frozen=True, kw_only=True)
class ModelSummary(JsonRecord):
    """A trained null model."""

    path: str
    digest: str
    n_topics: int
    bic: float
    topics_per_document: float
    salient_words_per_topic: float

    def is_whole(self) -> bool:
        """Return whether the model is still there and unchanged."""
        try:
            return read_digest(self.path) == self.digest
        except AtdError:
            return False


def reuse_or_make(
    layout: RunLayout,
    stage: str,
    key: str | Callable[[], str],
    load: Callable[[JsonObject], T | None],
    make: Callable[[], T],
    describe: Callable[[T], JsonObject],
    warn: Callable[[str], None],
    *,
    fresh: bool = False,
) -> tuple[T, bool]:
    """Return what a stage makes: from before if it was made from the same inputs, otherwise made
    now.

    Parameters
    ----------
    layout
        The folder with the note of the stage.
    key
        The identity of the stage, from `stage_key`; or a function that returns it, which may know
        it only after `make` if nothing is reused (`fresh`).
    load
        Loads what was made before, from the note; returns None if it is incomplete.
    make
        Makes it, and puts it in its place.
    describe
        Returns what to write in the note.
    warn
        Called if what was made before is damaged, and so is made again.
    fresh
        Whether to make it in any case.

    Returns
    -------
    tuple
        What the stage makes, and whether it was reused.
    """
    try:
        note = None if fresh else finished_stage(layout.folder, stage, _find_key(key))
        kept = None if note is None else load(note)
    except DamagedStoreError as error:
        warn(f"{error}: running {stage} again")
        kept = None
    except InputError:  # from an earlier version
        kept = None
    if kept is not None:
        return kept, True
    made = make()
    finish_stage(layout.folder, stage, _find_key(key), describe(made))
    return made, False


def _find_key(key: str | Callable[[], str]) -> str:
    return key() if callable(key) else key


def has_note(layout: RunLayout, stage: str) -> bool:
    """Return whether there is a note of a stage, in whatever state."""
    folder, _, name = layout.stage_note(stage).rpartition("/")
    return name in Location.of(folder).names()


def load_corpus(layout: RunLayout, note: JsonObject) -> CorpusSummary:
    """Return the parts of a corpus from the note about it.

    Raises
    ------
    DamagedStoreError
        If a store has changed since it was written.
    """
    parts = {name: PartSummary.from_json(told).placed(layout, name) for name, told in note.items()}
    for part in parts.values():
        if not part.is_whole():
            raise DamagedStoreError(f"{part.path} is not as it was written")
    return parts


def describe_corpus(layout: RunLayout, parts: CorpusSummary) -> JsonObject:
    """Return what the note says about the parts of a corpus, with paths relative to the folder."""

    def place_inside(part: PartSummary) -> PartSummary:
        texts = part.texts and replace(part.texts, path=layout.relative(part.texts.path))
        return replace(part, path=layout.relative(part.path), texts=texts)

    return {name: place_inside(part).to_json() for name, part in parts.items()}


def stage_key(*parts: object) -> str:
    """Return the identity of a stage: a hash of everything that its result depends on, as JSON."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def finish_stage(output: str, stage: str, key: str, summary: JsonObject) -> None:
    """Note that a stage is finished, once everything it makes is in place."""
    write_sealed(RunLayout(output).stage_note(stage), {"key": key, "summary": summary})


def finished_stage(output: str, stage: str, key: str) -> JsonObject | None:
    """Return the summary of a stage that was finished from the same inputs, or None.

    Raises
    ------
    DamagedStoreError
        If the note has changed since it was written.
    """
    path = RunLayout(output).stage_note(stage)
    noted = read_sealed(path)
    if noted is None:
        return None
    summary = noted.get("summary")
    if not isinstance(summary, dict) or "key" not in noted:
        raise DamagedStoreError(f"{path} is not as it was written")
    return summary if noted["key"] == key else None


def read_skipped(output: str) -> dict[str, dict[str, int]]:
    """Return how many documents of each part of the corpus were skipped for each reason. It is
    empty if nothing is known of that."""
    try:
        noted = read_sealed(RunLayout(output).stage_note("ingest"))
        parts = {} if noted is None else noted["summary"]
        summaries = {part: PartSummary.from_json(summary) for part, summary in parts.items()}
    except (DamagedStoreError, InputError, KeyError):
        return {}
    return {
        part: {reason: skipped.documents for reason, skipped in summary.skipped.items()}
        for part, summary in summaries.items()
    }


def forget_stage(output: str, stage: str) -> None:
    """Remove the note of a stage, so that it runs again."""
    folder, _, name = RunLayout(output).stage_note(stage).rpartition("/")
    location = Location.of(folder)
    if name in location.names():
        location.remove_files([name])
