"""Checks that every byte of a store is as it was written."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass

from atd_dask.documents import PARTS
from atd_dask.errors import AtdError, DamagedStoreError, InputError
from atd_dask.storage.atomic_files import join
from atd_dask.storage.checkpoints import SUFFIX, is_sound
from atd_dask.storage.checksums import NAME as SUMS
from atd_dask.storage.checksums import read_checked, read_sums
from atd_dask.storage.groups import SealedGroup, chunk_keys
from atd_dask.storage.locations import MANIFEST, Location
from atd_dask.storage.manifest import ContentHash, Manifest, read_manifest
from atd_dask.storage.run_layout import RunLayout
from atd_dask.storage.sealed_json import read_sealed

SEALED = ("plan.json", "run.json", "state.json", "sweep.json")


def verify(url: str | os.PathLike[str]) -> list[str]:
    """Return a sentence for everything that is wrong with a store of any kind; an empty list if it
    is sound.

    Reads the whole store, a chunk at a time. Raises InputError if there is nothing at the location.
    """
    location = Location.of(url)
    try:
        manifest = read_manifest(location)
    except AtdError as error:
        if not location.names():
            raise
        return [str(error)]
    files = location.files()
    problems = _check_metadata(location, manifest)
    try:
        group = SealedGroup(location, manifest)
    except AtdError:
        return problems
    expected = {MANIFEST, *manifest.metadata}
    for path in manifest.arrays:
        chunks = chunk_keys(path, group.array(path))
        expected |= chunks
        missing = chunks - files.keys()
        problems += [f"the chunk {name} is missing" for name in sorted(missing)]
        if not missing:
            problems += _check_array(group, path)
    problems += [f"{name} does not belong to the store" for name in files if name not in expected]
    return problems


def verify_files(url: str | os.PathLike[str]) -> list[str]:
    """Return a sentence for everything that is wrong with the files of an output folder that are
    not in stores."""
    location = Location.of(url)
    problems = []
    for name in location.files():
        path = join(os.fspath(url), name)
        folder, _, last = path.rpartition("/")
        try:
            if last == SUMS:
                for listed in read_sums(folder):
                    problems += _check_listed(join(folder, listed))
            elif last in SEALED or folder.endswith("/stages"):
                read_sealed(path)
            elif last.endswith(SUFFIX) and not is_sound(location.read(name) or b""):
                problems.append(f"{path} is not as it was written")
        except DamagedStoreError as error:
            problems.append(str(error))
    return problems


def _check_listed(path: str) -> list[str]:
    try:
        return [f"{path} is missing"] if read_checked(path) is None else []
    except DamagedStoreError as error:
        return [str(error)]


@dataclass(frozen=True)
class DamagedStore:
    """A damaged store of a run, and the stage that makes it."""

    path: str
    folder: str  # of the run or repeat with the note of the stage
    stage: str


def find_damaged_stores(output: str) -> list[DamagedStore]:
    """Return the damaged stores of a run and its repeats, reading all of them."""
    layout = RunLayout(output)
    repeats = Location.of(join(output, "repeats")).names()
    runs = [layout, *(layout.repeat(int(name)) for name in repeats if name.isdecimal())]
    made = [(layout.corpus(part), layout, "ingest") for part in PARTS]
    made += [(layout.texts(), layout, "ingest")]
    made += [(run.model, run, "train") for run in runs]
    return [
        DamagedStore(path, run.folder, stage)
        for path, run, stage in made
        if Location.of(path).names() and verify(path)
    ]


def find_stores(url: str | os.PathLike[str]) -> list[str]:
    """Return the stores at or below a location, such as the folder of a run. Raises InputError if
    there are none."""
    location = Location.of(url)
    files = location.files()
    folders = {name.rpartition("/")[0] for name in files if is_part_of_store(name)}
    # Skip what is inside a store, and stores that are being written.
    stores = [
        folder
        for folder in sorted(folders)
        if not any(part.startswith(".") for part in folder.split("/"))
        and not any(above in folders for above in _list_above(folder))
    ]
    if not stores:
        if files == {} and not location.names():
            raise InputError(f"there is nothing to verify at {location.url}: correct the path")
        raise InputError(
            f"{location.url} must be a store or a folder with stores, such as the output of a run,"
            " but is neither: correct the path"
        )
    return [join(os.fspath(url), folder) if folder else os.fspath(url) for folder in stores]


def is_part_of_store(name: str) -> bool:
    return name.rpartition("/")[2] in (MANIFEST, "zarr.json")


def _list_above(folder: str) -> list[str]:
    parts = folder.split("/") if folder else []
    return ["/".join(parts[:n]) for n in range(len(parts))]


def _check_metadata(location: Location, manifest: Manifest) -> list[str]:
    problems = []
    for name, sha256 in sorted(manifest.metadata.items()):
        content = location.read(name)
        if content is None:
            problems.append(f"{name} is missing")
        elif hashlib.sha256(content).hexdigest() != sha256:
            problems.append(f"{name} is not as it was written")
    return problems


def _check_array(group: SealedGroup, path: str) -> list[str]:
    content = ContentHash()
    try:
        for piece in group.pieces(path):
            content.update(piece)
    except AtdError as error:
        return [str(error)]
    if content.hexdigest() != group.manifest.arrays[path].sha256:
        return [f"the values of {path} have changed since they were written"]
    return []
