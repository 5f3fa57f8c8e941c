"""A gate in front of an object store, which can shut, answer with errors, or not answer at all."""

from __future__ import annotations

import select
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Literal

Mode = Literal["open", "gone", "erroring", "silent"]

ANSWER = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n"
    b"Content-Type: application/xml\r\n\r\n"
)


@dataclass
class Gate:
    """Where to reach the store, and how the gate stands."""

    endpoint: str = ""
    mode: Mode = "open"


@contextmanager
def gate_before(host: str, port: int) -> Iterator[Gate]:
    """A gate in front of the server at this address, open at first."""
    gate = Gate()

    class Visit(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                if gate.mode == "open":
                    _pass(gate, self.request, host, port)
                elif gate.mode == "silent":
                    while gate.mode == "silent":
                        time.sleep(0.05)
                elif gate.mode == "erroring":
                    _refuse(self.request)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True
        request_queue_size = 128

    with Server(("127.0.0.1", 0), Visit) as server:
        gate.endpoint = "http://{}:{}".format(*server.server_address)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield gate
        finally:
            gate.mode = "gone"
            server.shutdown()
            thread.join()


def _pass(gate: Gate, visitor: socket.socket, host: str, port: int) -> None:
    """Carries bytes both ways for as long as the gate is open."""
    with socket.create_connection((host, port)) as store:
        other = {visitor: store, store: visitor}
        while gate.mode == "open":
            ready, _, _ = select.select(list(other), [], [], 0.05)
            for source in ready:
                data = source.recv(2**16)
                if not data:
                    return
                other[source].sendall(data)
        while gate.mode == "silent":
            time.sleep(0.05)


def _refuse(visitor: socket.socket) -> None:
    """Reads what is sent for a moment, so that the answer is not lost with a reset."""
    visitor.settimeout(0.2)
    with suppress(TimeoutError):
        while visitor.recv(2**16):
            pass
    visitor.sendall(ANSWER)
