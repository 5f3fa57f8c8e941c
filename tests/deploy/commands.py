"""The commands that deploy/ starts, parsed as the programs themselves parse them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from atd_dask.cli.command import atd


def parse(command: Sequence[str]) -> dict[str, Any]:
    """The options of a command of Dask or of this project; a mistake is an error."""
    from distributed.cli import dask_scheduler, dask_worker

    program, name, *arguments = command
    if program == "dask":
        known: dict[str, click.Command] = {
            "scheduler": dask_scheduler.main,
            "worker": dask_worker.main,
        }
        found = known[name]
    else:
        assert program == "atd-dask"
        found = atd.commands[name]
    with found.make_context(name, list(arguments)) as context:
        return dict(context.params)


def check_worker(command: Sequence[str]) -> None:
    """A worker shows its health, Dask's metrics and ours."""
    options = parse(command)
    assert options["preload"] == ("atd_dask.distribution.engine.counters",)
    assert options["dashboard_address"].endswith(":8788")
    assert options["death_timeout"]
    assert options["nanny"]
