"""All that knows `dask.distributed`."""
