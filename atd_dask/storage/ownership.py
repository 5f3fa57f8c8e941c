"""Whose an output folder is.

Ours carries a mark, which is written before anything else. A folder without one that holds files is
somebody else's and is not written into, unless an earlier version of this package made it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from atd_dask.errors import AtdError, InputError
from atd_dask.outages import explain_outage
from atd_dask.storage.atomic_files import join, write_file
from atd_dask.storage.locations import MANIFEST, MARK, MARK_FORMAT, Location
from atd_dask.storage.locks import NAME, lock_folder
from atd_dask.wording import list_some

# What a file system or a desktop puts into folders by itself.
_IGNORED = ("lost+found", "desktop.ini", "Thumbs.db")

# Folders of an output that are outputs themselves, as earlier versions made them.
_INNER = ("models/0001", "sweeps/0001", "repeats/1", "run")


@contextmanager
def hold_output(output: str, say: Callable[[str], None]) -> Iterator[None]:
    """Marks an output folder as ours, and keeps other runs from it while the block runs; `say`
    hears of a run that left it behind."""
    claim_folder(output)
    with lock_folder(output, say):
        yield


def claim_folder(output: str) -> None:
    """Marks a new or empty folder as ours; does nothing where it is ours already.

    Raises
    ------
    InputError
        If the folder holds files of others, or cannot be written.
    """
    location = Location.of(output)
    mark = location.read(MARK)
    if mark is not None and MARK_FORMAT.encode() in mark:
        return
    if location.is_file():
        raise InputError(f"output must be a folder, but {output} is a file")
    others = [name for name in location.names() if not name.startswith(".") and name != MARK]
    others = [name for name in others if name not in _IGNORED]
    if others and not _is_ours(location):
        raise InputError(
            f"output must be a new folder, an empty one or one that atd-dask made, but {output}"
            f" holds {list_some(others, 3)}: choose another folder with --output, or move these"
            " files away"
        )
    content = json.dumps({"format": MARK_FORMAT}) + "\n"
    try:
        write_file(join(output, MARK), content.encode())
    except AtdError:
        raise
    except Exception as error:
        reason = getattr(error, "strerror", None) or error
        raise explain_outage(error, output) or InputError(
            f"output must be writable, got {output}: {reason}"
        ) from error


def _is_ours(location: Location) -> bool:
    """Whether an earlier version made this folder."""
    for name in ("run.json", "result.json", "state.json"):
        if str(_read_object(location, name).get("format")).startswith("atd-dask-"):
            return True
    if {"token", "realm"} <= _read_object(location, NAME).keys():
        return True
    stores = ["null_model.zarr", *(f"corpus/{part}.zarr" for part in ("train", "new", "test"))]
    if any(b"atd-dask-" in (location.read(f"{store}/{MANIFEST}") or b"") for store in stores):
        return True
    names = set(location.names())
    inner = [path for path in _INNER if path.partition("/")[0] in names]
    return any(_is_ours(Location(join(location.url, path), location.local)) for path in inner)


def _read_object(location: Location, name: str) -> dict[str, Any]:
    try:
        value = json.loads(location.read(name) or b"null")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
