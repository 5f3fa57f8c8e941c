"""Members of archives, read one after the other from the stream; nothing is unpacked to disk."""

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
    """The names and bytes of the wanted files of a packed tar archive, in the archive's order.

    Of a member larger than `max_bytes` one byte more than that is read. Links and devices are
    passed over. A damaged archive is an `InputError`, at the latest after its last member.
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
        # Reads on to the checksum that ends the file.
        while stream.read(BLOCK):
            pass
