"""A first signal stops the block cleanly."""

from __future__ import annotations

import logging
import os
import signal
import threading

import pytest

from atd_dask.cli.stopping import SignalError, stopping_on_request


@pytest.fixture
def logs():
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_block(number: signal.Signals, logs: None) -> None:
    before = signal.getsignal(number)

    def wait() -> None:
        with stopping_on_request():
            os.kill(os.getpid(), number)
            signal.pause()

    with pytest.raises(SignalError, match=r"^$") as stopped:
        wait()
    assert stopped.value.number == number
    assert signal.getsignal(number) == before


def test_other_threads_leave_signals_alone() -> None:
    seen = []

    def work() -> None:
        with stopping_on_request():
            seen.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
