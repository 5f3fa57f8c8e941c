"""Everything that knows `dask.distributed`."""
