"""The page that shows a result to people: one HTML file that needs nothing else."""

from atd_dask.interface.report.page import render
from atd_dask.interface.report.sources import Sources

__all__ = ["Sources", "render"]
