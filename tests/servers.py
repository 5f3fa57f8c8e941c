"""HTTP servers on this machine for tests."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


class Silent:
    """A handler that logs nothing."""

    def log_message(self, *arguments: Any) -> None:
        pass


@contextmanager
def serve(handler: type[BaseHTTPRequestHandler], **attributes: Any) -> Iterator[Any]:
    """Run a server in a thread during the block, with attributes for its handler."""
    server = HTTPServer(("127.0.0.1", 0), handler)
    vars(server).update(attributes)
    with running(server):
        yield server


@contextmanager
def running(server: HTTPServer) -> Iterator[None]:
    """Run a server in a thread during the block."""
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
