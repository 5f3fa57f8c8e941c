from __future__ import annotations

import asyncio
import errno
import socket
from concurrent.futures import CancelledError

import distributed.client
import pytest
from distributed.client import FutureCancelledError
from distributed.comm import CommClosedError, connect
from distributed.scheduler import NoValidWorkerError

from atd_dask.distribution.engine.failures import explain_failure
from atd_dask.errors import ClusterError, InputError

# The lowest version of Dask has no such error yet.
ClosedClientError = getattr(distributed.client, "ClosedClientError", CommClosedError)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (CancelledError("x"), "the connection to the Dask scheduler was lost"),
        (FutureCancelledError("x", "lost"), "the connection to the Dask scheduler was lost"),
        (CommClosedError("in <TCP>"), "the connection to the Dask scheduler was lost"),
        (ClosedClientError("cannot send"), "the connection to the Dask scheduler was lost"),
        (NoValidWorkerError("x", set(), set(), {}, 1.0), "the Dask cluster failed"),
        (MemoryError(), "memory ran out, in this process or on a worker"),
        (OSError(errno.ENOSPC, "No space left", "/data/out"), "left on the disk of /data/out"),
        (OSError(errno.EDQUOT, "Quota"), "left on the disk of the output folder or /"),
    ],
)
def test_a_loss_is_a_sentence_with_the_remedy(error: BaseException, sentence: str) -> None:
    told = explain_failure(error)
    assert isinstance(told, ClusterError)
    assert sentence in str(told)
    assert str(told).endswith("then run the same command again to resume")
    assert "Error" not in str(told)


def test_a_scheduler_that_cannot_be_reached_any_more_is_a_sentence() -> None:
    """Dask raises a plain OSError for a call that times out."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = "tcp://{}:{}".format(*server.getsockname())
    with pytest.raises(OSError, match="Timed out trying to connect") as caught:
        asyncio.run(connect(address, timeout=0.1))
    assert type(caught.value) is OSError
    told = explain_failure(caught.value)
    assert isinstance(told, ClusterError)
    assert str(told).startswith("the connection to the Dask scheduler was lost")


def test_a_dead_object_store_is_a_sentence() -> None:
    from botocore.exceptions import EndpointConnectionError

    told = explain_failure(EndpointConnectionError(endpoint_url="http://127.0.0.1:1"))
    assert 'Could not connect to the endpoint URL: "http://127.0.0.1:1"' in str(told)


@pytest.mark.parametrize(
    "error", [InputError("x"), ValueError("x"), KeyboardInterrupt(), OSError()]
)
def test_other_errors_stay_what_they_are(error: BaseException) -> None:
    assert explain_failure(error) is None
