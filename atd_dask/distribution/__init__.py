"""Runs the steps on Dask, over fixed blocks and with ordered reductions."""
