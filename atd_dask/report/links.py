"""Links from the page to the original documents."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, urlsplit

from atd_dask.json_records import JsonObject, look_up
from atd_dask.storage.locations import Location


def find_folder(configuration: JsonObject) -> Path | None:
    """Return the folder of a test corpus of text files, whose ids are paths below it."""
    value = look_up(configuration, "corpus", "test")
    if isinstance(value, Mapping) and value.get("format") == "text" and value.get("path"):
        return Path(value["path"]).absolute()
    return None


def find_original(id: str, folder: Path | None, output: str) -> str | None:
    """Return a link to a document whose id is a web address or the path of an existing file,
    relative to a page in `output`. Nothing else becomes a link."""
    if _is_address(id):
        return id
    path = Path(id) if folder is None else folder / id
    try:
        if not (path.is_absolute() and path.is_file()):
            return None
        page = Location.of(output)
        if not page.local:
            return path.as_uri()
        # A relative link survives if both are moved together. Colons are quoted too, so that no
        # file name is taken for the scheme of a URL.
        return quote(Path(os.path.relpath(path, page.url)).as_posix())
    except (OSError, ValueError):  # too long, or invalid characters
        return None


def _is_address(id: str) -> bool:
    if not id.isprintable() or " " in id:
        return False
    try:
        parts = urlsplit(id)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)
