"""Running the steps on Dask: clients, fixed blocks, ordered reductions."""
