"""Reads the members of archives from a stream, without unpacking to disk."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator

from atd_dask.errors import InputError
from atd_dask.text.readers.files import BLOCK, clean_text, open_file

ENDINGS = (".tar.gz", ".tgz")


def is_archive(path: str) -> bool:
    return path.lower().endswith(ENDINGS)


def read_members(
    url: str, wanted: Callable[[str], bool], max_bytes: int
) -> Iterator[tuple[str, bytes]]:
    """Yield the names and bytes of the wanted files of a compressed tar archive, in order.

    At most `max_bytes` + 1 bytes of a member are read. Links and devices are skipped. A damaged
    archive raises `InputError`, at the latest after its last member.
    """
    with open_file(url) as stream:
        try:
            with tarfile.open(fileobj=stream, mode="r|") as archive:
                for member in archive:
                    if member.isreg() and wanted(member.name):
                        content = archive.extractfile(member)
                        assert content is not None
                        yield clean_text(member.name), content.read(max_bytes + 1)
        except (tarfile.TarError, UnicodeError) as error:
            message = f"{clean_text(url)} must be a whole tar archive, but is not: {error}"
            raise InputError(message) from error
        # Read on to the checksum at the end of the file.
        while stream.read(BLOCK):
            pass
