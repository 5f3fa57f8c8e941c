"""Stopping on request, in good order."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# A process that was stopped by a signal ends with this and the number of the signal.
STOPPED = 128


class SignalError(KeyboardInterrupt):
    """Someone asks this process to stop."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def stopping_on_request() -> Iterator[None]:
    """Ctrl-C, or a request to end, stops the block in good order; a second one at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: object) -> None:
        for each in before:
            signal.signal(each, end)
        # What is broken off complains of it, and nobody needs to read that.
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
