"""Finished stages of a run: what each was made from, and what it gave."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from atd_dask.storage.atomic_files import read_file, write_file
from atd_dask.storage.run_layout import RunLayout


def stage_key(*parts: object) -> str:
    """The identity of a stage: a hash of everything its result depends on, fit for JSON."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def finish_stage(output: str, stage: str, key: str, summary: dict[str, Any]) -> None:
    """Notes that a stage is finished; to be called when all it has made is in its place."""
    content = json.dumps({"key": key, "summary": summary}, indent=1)
    write_file(RunLayout(output).stage_note(stage), content.encode() + b"\n")


def finished_stage(output: str, stage: str, key: str) -> dict[str, Any] | None:
    """The summary of a stage that was finished from the same things, or None."""
    content = read_file(RunLayout(output).stage_note(stage))
    try:
        noted = json.loads(content or b"null")
        summary: dict[str, Any] | None = noted["summary"] if noted["key"] == key else None
    except (ValueError, TypeError, KeyError):
        return None
    return summary
