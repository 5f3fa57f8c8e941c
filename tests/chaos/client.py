"""The command, in a process that is forked from one with everything imported."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import distributed  # noqa: F401
import s3fs  # noqa: F401

import atd_dask.pipelines.run
import atd_dask.pipelines.sweep  # noqa: F401
from atd_dask.cli.command import main
from tests.chaos.points import install


def run_command(arguments: list[str], log: Path) -> None:
    """Runs `atd-dask` in a session of its own; what it says goes to a file."""
    os.setsid()
    os.chdir(log.parent)
    for target, number in ((os.devnull, 1), (log, 2)):
        os.dup2(os.open(target, os.O_WRONLY | os.O_APPEND), number)
    # Workers that are spawned from here are not to import the program that runs the tests.
    this = sys.modules["__main__"]
    this.__spec__ = None
    this.__dict__.pop("__file__", None)
    install()
    sys.argv = ["atd-dask", *arguments]
    main()
