"""The result and the stores next to it become a page for people."""

from __future__ import annotations

from atd_dask.report import render
from atd_dask.report.sources import read_sources
from atd_dask.storage.atomic_files import write_file
from atd_dask.storage.run_layout import RunLayout


def write_report(output: str) -> str:
    """Write report.html for the run in the folder `output`; return its path."""
    path = RunLayout(output).report
    write_file(path, render(read_sources(output)))
    return path
