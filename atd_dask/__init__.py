"""Anomalous topic discovery in batches of documents, on Dask."""

__version__ = "0.1.0"
