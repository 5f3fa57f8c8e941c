"""Resolves the input paths of a configuration, and checks that they exist."""

from __future__ import annotations

import os
from pathlib import Path


def expand_home(path: str | os.PathLike[str]) -> str:
    """Replace a leading `~` by the home folder, if there is such a user; URLs stay as they are."""
    return os.path.expanduser(os.fspath(path))  # noqa: PTH111 - which would change URLs, and raise


def find_input(path: str, folder: Path) -> tuple[str, str | None]:
    """Make `path`, relative to `folder`, absolute; if it cannot be used, also return what it must
    be.

    Local folders, files and globs must exist. URLs are not opened, but their protocol must be known
    and installed.
    """
    if "://" in path and not path.startswith(("file://", "local://")):
        return path, _find_mistake_in_url(path)
    local = path.removeprefix("file://").removeprefix("local://")
    try:
        found = (folder / Path(local).expanduser()).resolve()
        exists = found.exists() or _matches(found)
    except (OSError, RuntimeError, ValueError) as error:
        return path, f"a readable path ({error})"
    if not exists:
        return path, f"an existing file or folder (looked for {found})"
    return str(found), None


def _matches(pattern: Path) -> bool:
    if not any(sign in str(pattern) for sign in "*?["):
        return False
    root = Path(pattern.anchor)
    return any(root.glob(str(pattern.relative_to(root))))


def _find_mistake_in_url(url: str) -> str | None:
    from fsspec import available_protocols, get_filesystem_class

    for link in url.split("::"):  # fsspec's notation for, say, an archive at a URL
        protocol = link.partition("://")[0]
        if protocol not in available_protocols():
            return "a path or a URL with a protocol that fsspec knows"
        try:
            get_filesystem_class(protocol)
        except ImportError as error:
            return f"a path or a URL whose protocol is installed ({error})"
    return None
