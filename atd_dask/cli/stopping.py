"""Orderly shutdown on Ctrl-C and SIGTERM."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# A process stopped by a signal exits with this plus the number of the signal.
STOPPED = 128


class SignalError(KeyboardInterrupt):
    """A signal asked this process to stop."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def stopping_on_request() -> Iterator[None]:
    """Stop the block cleanly on Ctrl-C or SIGTERM, and the process at once on a second one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: object) -> None:
        for each in before:
            signal.signal(each, end)
        # Suppress the errors that interrupted work logs.
        logging.disable(logging.CRITICAL)
        raise SignalError(number)

    def end(number: int, frame: object) -> None:
        os._exit(STOPPED + number)

    before = {each: signal.signal(each, stop) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
