"""Turns what Dask and the operating system say about a failure into one sentence with a remedy."""

from __future__ import annotations

import errno
import tempfile
from asyncio import CancelledError as AsyncCancelledError
from concurrent.futures import CancelledError
from traceback import walk_tb

from atd_dask.errors import AtdError, ClusterError
from atd_dask.outages import explain_outage

GO_ON = "then run the same command again to resume"
LOST = (
    f"the connection to the Dask scheduler was lost: check that the scheduler is running, {GO_ON}"
)
FULL = (errno.ENOSPC, errno.EDQUOT)
# Packages for object stores, which raise errors of their own.
OBJECT_STORES = ("aiobotocore", "aiohttp", "botocore", "s3fs")


def explain_failure(error: BaseException) -> AtdError | None:
    """Return a sentence for a failure of the cluster, of memory or of a disk; None for anything
    else."""
    if isinstance(error, AtdError):
        return None
    kind = type(error).__name__
    is_of_dask = type(error).__module__.partition(".")[0] == "distributed" or _is_lost_call(error)
    if is_of_dask and kind == "KilledWorker":
        tries = int(getattr(error, "allowed_failures", 0)) + 1
        last = getattr(getattr(error, "last_worker", None), "address", "unknown")
        return ClusterError(
            f"a task was abandoned after {tries} workers died while running it, the last one at"
            f" {last}, most likely because it needs more memory than they have: give workers more"
            " memory (for a local cluster, raise cluster.local.memory_limit or use fewer workers),"
            f" {GO_ON}"
        )
    if isinstance(error, (CancelledError, AsyncCancelledError)) or (
        is_of_dask and (isinstance(error, OSError) or kind == "ClosedClientError")
    ):
        return ClusterError(LOST)
    if is_of_dask:
        line = (str(error).splitlines() or [kind])[0]
        return ClusterError(f"the Dask cluster failed ({line}): fix that, {GO_ON}")
    if isinstance(error, MemoryError):
        return ClusterError(
            "memory ran out, in this process or on a worker: give the job more memory, or use fewer"
            f" workers on this machine, {GO_ON}"
        )
    outage = explain_outage(error, getattr(error, "filename", None) or "a disk or object store")
    if outage is not None:
        return outage
    if type(error).__module__.partition(".")[0] in OBJECT_STORES:
        line = (str(error).splitlines() or ["no answer"])[0]
        return ClusterError(
            f"an object store cannot be used ({line}): check that it is up, {GO_ON}"
        )
    if isinstance(error, OSError) and error.errno in FULL:
        where = error.filename or f"the output folder or {tempfile.gettempdir()}"
        return ClusterError(f"no space is left on the disk of {where}: free some, {GO_ON}")
    return None


def _is_lost_call(error: BaseException) -> bool:
    """Whether a call to the scheduler or a worker failed: for some that time out, Dask raises a
    plain OSError."""
    if not isinstance(error, OSError) or error.errno is not None:
        return False
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    return bool(frames) and frames[-1].f_globals.get("__name__", "").startswith("distributed.")
