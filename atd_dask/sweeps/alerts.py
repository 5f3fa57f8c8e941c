"""Delivers alerts: to a command that reads them, or to a webhook.

Errors are reported without addresses and arguments, which may contain secrets.
"""

from __future__ import annotations

import http.client
import os
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any

from atd_dask.config.sweep_config import AlertConfig

TIMEOUT = 30.0  # seconds for one attempt as a whole
SAME_METHOD = (307, 308)  # statuses that redirect the same request
MOST_REDIRECTS = 5
FIRST_PAUSE = 1.0  # seconds before the second attempt; then twice as long each time

# Channel → the function that delivers a message, and returns what went wrong.
Deliver = Callable[[AlertConfig, bytes], str | None]


def list_channels(config: AlertConfig) -> tuple[str, ...]:
    """Return where alerts go."""
    return tuple(name for name in CHANNELS if getattr(config, name))


def deliver(config: AlertConfig, channel: str, message: bytes) -> str | None:
    """Deliver a message, retrying a few times; return what went wrong in the last attempt, or
    None."""
    problem = None
    for number in range(config.tries):
        if number:
            time.sleep(FIRST_PAUSE * 2 ** (number - 1))
        problem = CHANNELS[channel](config, message)
        if problem is None:
            return None
    return problem


def _run_command(config: AlertConfig, message: bytes) -> str | None:
    # A file, not a pipe: a child process of the command may keep it open for any length of time.
    # What the command prints may hold a secret, so it is not logged.
    with tempfile.TemporaryFile() as given:
        given.write(message)
        given.seek(0)
        try:
            done = subprocess.run(
                config.command,
                stdin=given,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"the command did not end within {TIMEOUT:.0f} s"
        except OSError as error:
            return f"the command could not be started: {error.strerror}"
    return None if done.returncode == 0 else f"the command ended with status {done.returncode}"


def _post(config: AlertConfig, message: bytes) -> str | None:
    address = os.path.expandvars(config.webhook or "")
    if not address.startswith(("http://", "https://")):
        return "the webhook's address must be an http or https URL"
    problems: list[str | None] = []
    # The timeout of a socket starts over with every read: a server that sends a byte now and then
    # would hold us forever. The thread left behind ends with the process.
    posting = threading.Thread(
        target=lambda: problems.append(_follow(address, message)), daemon=True
    )
    posting.start()
    posting.join(TIMEOUT)
    return problems[0] if problems else f"the webhook did not answer within {TIMEOUT:.0f} s"


def _follow(address: str, message: bytes) -> str | None:
    """Post a message, following redirects."""
    for _ in range(MOST_REDIRECTS + 1):
        try:
            request = urllib.request.Request(  # noqa: S310 - the protocol was checked
                address, data=message, headers={"Content-Type": "application/json"}
            )
            opener = urllib.request.build_opener(_StaysAPost)
            with opener.open(request, timeout=TIMEOUT):
                return None
        except urllib.error.HTTPError as error:
            with error:
                elsewhere = urllib.parse.urljoin(address, error.headers.get("Location", ""))
                safe = ("https://",) if address.startswith("https") else ("http://", "https://")
                if error.code not in SAME_METHOD or not elsewhere.startswith(safe):
                    return f"the webhook answered with status {error.code}"
                address = elsewhere
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None)
            return f"the webhook cannot be reached: {reason or type(error).__name__}"
    return f"the webhook redirected more than {MOST_REDIRECTS} times"


class _StaysAPost(urllib.request.HTTPRedirectHandler):
    """Follows no redirects: urllib would repeat the request without the message, and count that as
    success."""

    def redirect_request(self, *_: Any) -> None:
        return None


CHANNELS: dict[str, Deliver] = {"command": _run_command, "webhook": _post}
