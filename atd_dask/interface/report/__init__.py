"""The pages that show results to people: each one HTML file that needs nothing else."""

from atd_dask.interface.report.comparison import render_tables
from atd_dask.interface.report.page import render
from atd_dask.interface.report.sources import Sources

__all__ = ["Sources", "render", "render_tables"]
