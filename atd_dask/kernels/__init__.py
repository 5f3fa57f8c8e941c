"""The mathematics of the method: NumPy and numba, no Dask, no Zarr, no files."""
