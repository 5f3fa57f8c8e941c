from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import pytest

from atd_dask.config.sweep_config import AlertConfig
from atd_dask.sweeps import alerts
from tests.servers import Silent, serve

MESSAGE = b'{"sweep": 1}'


class Door(Silent, BaseHTTPRequestHandler):
    """Redirects what is sent to `/first`, with the status that the server has."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer(body)

    def do_GET(self):
        self.answer(b"")

    def answer(self, body):
        self.server.heard.append((self.command, self.path, body))
        first = self.path == "/first"
        self.send_response(self.server.status if first else 204)
        if first and self.server.location is not None:
            self.send_header("Location", self.server.location)
        self.end_headers()


@pytest.fixture
def door():
    with serve(Door, heard=[], status=200, location="/second") as server:
        yield server


def post_to(port):
    config = AlertConfig(webhook=f"http://127.0.0.1:{port}/first", tries=1)
    return alerts.deliver(config, "webhook", MESSAGE)


@pytest.mark.parametrize("status", [301, 302, 303, 304, 404])
def test_only_success_for_our_post_is_a_delivery(door, status):
    door.status = status
    assert post_to(door.server_port) == f"the webhook answered with status {status}"
    assert door.heard == [("POST", "/first", MESSAGE)]


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_that_keeps_the_method_is_followed_with_the_message(door, status):
    door.status = status
    assert post_to(door.server_port) is None
    assert door.heard == [("POST", "/first", MESSAGE), ("POST", "/second", MESSAGE)]


@pytest.mark.parametrize("location", [None, "file:///etc/hosts", "/first"])
def test_a_redirect_that_leads_nowhere_is_no_delivery(door, location):
    door.status, door.location = 307, location
    assert post_to(door.server_port) is not None


@contextmanager
def dripping():
    """The port of a server that sends a byte of its answer now and then, forever."""
    ended = threading.Event()

    def serve():
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            while not ended.wait(0.05):
                connection.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        ended.set()
        thread.join()


def test_a_server_that_drips_does_not_hold_us(monkeypatch):
    monkeypatch.setattr(alerts, "TIMEOUT", 1.0)
    with dripping() as port:
        assert post_to(port) == "the webhook did not answer within 1 s"


def test_a_command_that_leaves_a_child_behind_has_not_failed(tmp_path):
    heard, pid = tmp_path / "heard", tmp_path / "pid"
    child = "import time; time.sleep(240)"
    program = (
        "import subprocess, sys; "
        f"open({str(heard)!r}, 'w').write(sys.stdin.read()); "
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}]); "
        f"open({str(pid)!r}, 'w').write(str(child.pid))"
    )
    config = AlertConfig(command=(sys.executable, "-c", program), tries=1)
    try:
        assert alerts.deliver(config, "command", MESSAGE) is None
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)
    assert heard.read_bytes() == MESSAGE


def test_a_command_that_does_not_end_is_told(monkeypatch):
    monkeypatch.setattr(alerts, "TIMEOUT", 1.0)
    command = (sys.executable, "-c", "import time; time.sleep(30)")
    told = alerts.deliver(AlertConfig(command=command, tries=1), "command", MESSAGE)
    assert told == "the command did not end within 1 s"
