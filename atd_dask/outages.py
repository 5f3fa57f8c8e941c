"""Outages of stores: unlike a wrong path, they are not the user's to fix."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

from atd_dask.errors import OutageError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

# What s3fs makes of a server's errors, and what systems report for a network disk.
_PASSING = (
    *(errno.EIO, errno.EBUSY, errno.ESTALE, errno.ETIMEDOUT),
    *(errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTUNREACH),
)
# Errors with which these packages report that nobody answers, or not as expected.
_UNANSWERED = {
    "aiohttp": ("ClientConnectionError", "ClientPayloadError"),
    "botocore": ("ConnectionError", "HTTPClientError", "ResponseParserError"),
    "urllib3": ("IncompleteRead",),
}


def is_outage(error: BaseException) -> bool:
    """Whether the same call may succeed later.

    >>> is_outage(TimeoutError()), is_outage(PermissionError())
    (True, False)
    """
    if isinstance(error, OSError) and error.errno in _PASSING:
        return True
    return isinstance(error, (ConnectionError, TimeoutError)) or any(
        base.__name__ in _UNANSWERED.get(base.__module__.partition(".")[0], ())
        for base in type(error).__mro__
    )


def explain_outage(error: BaseException, url: str = "a store") -> OutageError | None:
    """Return a sentence for a store that does not answer; None for any other error."""
    if not is_outage(error):
        return None
    line = (str(error).splitlines() or [""])[0] or "no answer"
    return OutageError(
        f"{url} is not responding properly ({line}): check that it is up, then run the same"
        " command again to resume"
    )


def leave_outages_to_requests(loop: AbstractEventLoop) -> None:
    """Keep the event loop of a file system from logging outages with a traceback: aiohttp leaves
    tasks behind when a connection breaks, but the request that they belong to fails too."""
    if loop.get_exception_handler() is None:
        loop.set_exception_handler(_log_unless_outage)


def _log_unless_outage(loop: AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    if error is None or not is_outage(error):
        loop.default_exception_handler(context)
