"""The HTML pages, each a single self-contained file."""

from atd_dask.report.page import render
from atd_dask.report.paper_page import render_tables
from atd_dask.report.sources import Sources

__all__ = ["Sources", "render", "render_tables"]
