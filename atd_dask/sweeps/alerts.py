"""Telling others of what was found: a program that reads it, or an address to which it is posted.

What goes wrong is told without the address and the arguments, which may hold secrets.
"""

from __future__ import annotations

import http.client
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable

from atd_dask.config.sweep_config import AlertConfig

TIMEOUT = 30.0  # seconds that one delivery may take
FIRST_PAUSE = 1.0  # seconds before the second try; then twice as long each time

# Channel → what delivers a message there; an answer is what went wrong.
Deliver = Callable[[AlertConfig, bytes], str | None]


def list_channels(config: AlertConfig) -> tuple[str, ...]:
    """Who is to be told."""
    return tuple(name for name in CHANNELS if getattr(config, name))


def deliver(config: AlertConfig, channel: str, message: bytes) -> str | None:
    """Delivers a message, in several tries; gives what went wrong with the last, or None."""
    problem = None
    for number in range(config.tries):
        if number:
            time.sleep(FIRST_PAUSE * 2 ** (number - 1))
        problem = CHANNELS[channel](config, message)
        if problem is None:
            return None
    return problem


def _run_command(config: AlertConfig, message: bytes) -> str | None:
    try:
        done = subprocess.run(
            config.command,
            input=message,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"the command did not end within {TIMEOUT:.0f} s"
    except OSError as error:
        return f"the command could not be started: {error.strerror}"
    if done.returncode == 0:
        return None
    said = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
    return f"the command ended with status {done.returncode}" + "".join(f": {s}" for s in said)


def _post(config: AlertConfig, message: bytes) -> str | None:
    address = os.path.expandvars(config.webhook or "")
    if not address.startswith(("http://", "https://")):
        return "the webhook's address must be an http or https URL, and is not"
    try:
        request = urllib.request.Request(  # noqa: S310 - the protocol was looked at
            address, data=message, headers={"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=TIMEOUT):  # noqa: S310
            return None
    except urllib.error.HTTPError as error:
        with error:
            return f"the webhook answered with status {error.code}"
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None)
        return f"the webhook cannot be reached: {reason or type(error).__name__}"


CHANNELS: dict[str, Deliver] = {"command": _run_command, "webhook": _post}
