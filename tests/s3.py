"""A real S3 endpoint for tests, on this machine."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.request import Request, urlopen

import pytest

SECRET = "a-secret-that-nobody-may-write-down"


@contextmanager
def serve_s3() -> Iterator[Any]:
    """A file system with the bucket `bucket`; the environment has its endpoint and credentials."""
    from moto.server import ThreadedMotoServer
    from s3fs import S3FileSystem
    from zarr.core.sync import sync

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        # A file system that an earlier test made would go to another endpoint.
        S3FileSystem.clear_instance_cache()
        filesystem = S3FileSystem(use_listings_cache=False)
        filesystem.mkdir("bucket")
        yield filesystem
        # Zarr's file systems live in its own loop and are not closed by themselves.
        for made in list(S3FileSystem._cache.values()):
            if made.asynchronous and made._s3 is not None:
                sync(made._s3.close())
        S3FileSystem.clear_instance_cache()
        # What is in the buckets outlives the server, in this process.
        reset = Request(f"http://{host}:{port}/moto-api/reset", method="POST")
        urlopen(reset, timeout=120).close()
    server.stop()
