"""Finished stages of a run: what each was made from, and what it gave."""

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
    first: str  # where the first of them is


@dataclass(frozen=True, kw_only=True)
class PartSummary(JsonRecord):
    """A part of the corpus that was stored."""

    path: str
    digest: str
    documents: int
    copies: int | None  # None where they were not looked for
    tokens: int
    terms: int
    unseen_terms: int
    unseen_tokens: int
    skipped: Mapping[str, SkippedDocuments]  # by the reason
    texts: TextsSummary | None = field(default=None, metadata=OMITTED)

    def is_whole(self) -> bool:
        """Whether the stores are still there, and the same."""
        try:
            return CorpusStore.open(self.path).digest == self.digest and (
                self.texts is None or TextStore.open(self.texts.path).digest == self.texts.digest
            )
        except AtdError:
            return False

    def placed(self, layout: RunLayout, part: str) -> PartSummary:
        """The same in a folder: a note says nothing of where the folder is, which may be moved."""
        texts = self.texts and replace(self.texts, path=layout.texts(part))
        return replace(self, path=layout.corpus(part), texts=texts)


CorpusSummary = Mapping[str, PartSummary]  # by the name of the part


@dataclass(frozen=True, kw_only=True)
class ModelSummary(JsonRecord):
    """A null model that was trained."""

    path: str
    digest: str
    n_topics: int
    bic: float
    topics_per_document: float
    salient_words_per_topic: float

    def is_whole(self) -> bool:
        """Whether the model is still there, and the same."""
        try:
            return read_digest(self.path) == self.digest
        except AtdError:
            return False


def reuse_or_make(
    layout: RunLayout,
    stage: str,
    key: str,
    load: Callable[[JsonObject], T | None],
    make: Callable[[], T],
    describe: Callable[[T], JsonObject],
    warn: Callable[[str], None],
    *,
    fresh: bool = False,
) -> tuple[T, bool]:
    """What a stage gives: kept from before if it was made from the same things, or made now.

    Parameters
    ----------
    layout
        The folder that notes the stage.
    key
        The identity of the stage, from `stage_key`.
    load
        Reads what was kept, from the note of the stage; None where it is not whole any more.
    make
        Makes it, and puts it in its place.
    describe
        What the note says of it, fit for JSON.
    warn
        Hears of what was kept but is damaged, and so is made again.
    fresh
        Whether it is made in any case.

    Returns
    -------
    tuple
        What the stage gives, and whether it was kept from before.
    """
    try:
        note = None if fresh else finished_stage(layout.folder, stage, key)
        kept = None if note is None else load(note)
    except DamagedStoreError as error:
        warn(f"{error}: {stage} is done again")
        kept = None
    except InputError:  # of an earlier version
        kept = None
    if kept is not None:
        return kept, True
    made = make()
    finish_stage(layout.folder, stage, key, describe(made))
    return made, False


def load_corpus(layout: RunLayout, note: JsonObject) -> CorpusSummary:
    """The parts of a corpus that a note tells of.

    Raises
    ------
    DamagedStoreError
        If a store is not the one that was written.
    """
    parts = {name: PartSummary.from_json(told).placed(layout, name) for name, told in note.items()}
    for part in parts.values():
        if not part.is_whole():
            raise DamagedStoreError(f"{part.path} is not as it was written")
    return parts


def describe_corpus(layout: RunLayout, parts: CorpusSummary) -> JsonObject:
    """The parts of a corpus, as a note says it: with paths inside the folder."""

    def place_inside(part: PartSummary) -> PartSummary:
        texts = part.texts and replace(part.texts, path=layout.relative(part.texts.path))
        return replace(part, path=layout.relative(part.path), texts=texts)

    return {name: place_inside(part).to_json() for name, part in parts.items()}


def stage_key(*parts: object) -> str:
    """The identity of a stage: a hash of everything its result depends on, fit for JSON."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def finish_stage(output: str, stage: str, key: str, summary: JsonObject) -> None:
    """Notes that a stage is finished; to be called when all it has made is in its place."""
    write_sealed(RunLayout(output).stage_note(stage), {"key": key, "summary": summary})


def finished_stage(output: str, stage: str, key: str) -> JsonObject | None:
    """The summary of a stage that was finished from the same things, or None.

    Raises
    ------
    DamagedStoreError
        If the note is not as it was written.
    """
    path = RunLayout(output).stage_note(stage)
    noted = read_sealed(path)
    if noted is None:
        return None
    summary = noted.get("summary")
    if not isinstance(summary, dict) or "key" not in noted:
        raise DamagedStoreError(f"{path} is not as it was written")
    return summary if noted["key"] == key else None


def forget_stage(output: str, stage: str) -> None:
    """Removes the note of a stage, so that it is done again."""
    folder, _, name = RunLayout(output).stage_note(stage).rpartition("/")
    location = Location.of(folder)
    if name in location.names():
        location.remove_files([name])
