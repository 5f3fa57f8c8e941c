"""A small stand-in for systemd: it reads unit files, and runs services by their rules.

It supports what the units in deploy/systemd use: specifiers, variables, `Restart`.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path


def read_unit(path: Path) -> dict[str, dict[str, str]]:
    """The sections of a unit file, with continued lines joined."""
    sections: dict[str, dict[str, str]] = {}
    text = re.sub(r"(?m)^[#;].*\n", "", path.read_text()).replace("\\\n", " ")
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("["):
            values = sections.setdefault(line.strip("[]"), {})
        else:
            key, _, value = line.partition("=")
            assert key not in values, f"{path} gives {key} twice"
            values[key] = value
    return sections


def read_environment(path: Path) -> dict[str, str]:
    lines = (line.strip() for line in path.read_text().splitlines())
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


@dataclass
class Service:
    """A service that is restarted as its unit says, until it is stopped."""

    unit: Path
    instance: str = ""
    statuses: list[int] = field(default_factory=list)  # with which it ended, so far

    def __post_init__(self) -> None:
        self.values = read_unit(self.unit)["Service"]
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._supervise)
        self.process: subprocess.Popen[str] | None = None

    @property
    def environment(self) -> Mapping[str, str]:
        return read_environment(Path(self.values["EnvironmentFile"]))

    def make_command(self) -> list[str]:
        """ExecStart, as systemd understands it."""
        given = self.values["ExecStart"].replace("%i", self.instance).replace("%H", "here")
        assert "%" not in given
        words = shlex.split(given)
        return [re.sub(r"\$\{(\w+)\}", lambda m: self.environment[m[1]], word) for word in words]

    def run(self, **options: int) -> subprocess.Popen[str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return subprocess.Popen(
            self.make_command(),
            env=kept | self.environment,
            cwd=self.values["WorkingDirectory"],
            start_new_session=True,
            text=True,
            **options,
        )

    def start(self) -> None:
        self._thread.start()

    def _supervise(self) -> None:
        while not self._stopped.is_set():
            self.process = self.run(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while not self._stopped.is_set() and self.process.poll() is None:
                self._stopped.wait(0.05)
            self.kill()  # as systemd does with what is left of a service
            self.statuses.append(self.process.wait())
            if not self._is_wanted(self.statuses[-1]):
                return
            self._stopped.wait(float(self.values["RestartSec"]))

    def _is_wanted(self, status: int) -> bool:
        return {"always": True, "on-failure": status != 0}[self.values["Restart"]]

    def kill(self) -> None:
        """Kill every process of the service, without warning."""
        assert self.process is not None
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()
