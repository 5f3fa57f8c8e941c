"""Who owns an output folder.

Our folders carry a mark, which is written before anything else. A folder that has files but no mark
belongs to someone else, and nothing is written to it unless an earlier version of this package made
it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from atd_dask.errors import AtdError, InputError
from atd_dask.json_records import JsonObject
from atd_dask.outages import explain_outage
from atd_dask.storage.atomic_files import join, write_file
from atd_dask.storage.locations import MANIFEST, MARK, MARK_FORMAT, Location
from atd_dask.storage.locks import NAME, lock_folder
from atd_dask.wording import list_some

# What file systems and desktops put into folders.
_IGNORED = ("lost+found", "desktop.ini", "Thumbs.db")

# Folders inside an output that earlier versions made as outputs of their own.
_INNER = ("models/0001", "sweeps/0001", "repeats/1", "run")


@contextmanager
def hold_output(output: str, say: Callable[[str], None]) -> Iterator[None]:
    """Mark an output folder as ours, and keep other runs out during the block; `say` is called if a
    run left a lock behind."""
    claim_folder(output)
    with lock_folder(output, say):
        yield


def claim_folder(output: str) -> None:
    """Mark a new or empty folder as ours; do nothing if it is marked already.

    Raises
    ------
    InputError
        If the folder has files of somebody else, or is not writable.
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
    """Return whether an earlier version made this folder."""
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


def _read_object(location: Location, name: str) -> JsonObject:
    try:
        value = json.loads(location.read(name) or b"null")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
