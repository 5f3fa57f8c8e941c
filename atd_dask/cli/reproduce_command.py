"""`atd-dask reproduce`: sets up folder and cluster, and prints the tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from atd_dask.wording import clean

if TYPE_CHECKING:
    from atd_dask.progress import Progress

MADE = ("tables.md", "tables.html", "tables.json")


def make_tables(
    names: Sequence[str],
    folder: str | None,
    seeds: int,
    output: str,
    scheduler: str | None,
    progress: Progress,
    introduce: Callable[[Any, Progress], None],
) -> None:
    """Print the tables of each corpus as Markdown, each as soon as it is ready."""
    from atd_dask.cli.outputs import redirect_logs
    from atd_dask.distribution.engine.clients import connect
    from atd_dask.distribution.engine.observation import hush_when_stopped
    from atd_dask.pipelines.reproduce import check_request, reproduce
    from atd_dask.storage.atomic_files import join
    from atd_dask.storage.ownership import hold_output

    configs = check_request(names, folder, output)
    with (
        hold_output(output, progress.warn),
        redirect_logs(progress),
        connect(scheduler=scheduler, dask_logs=progress.verbose) as client,
        hush_when_stopped(client),
    ):
        introduce(client, progress)
        for text in reproduce(configs, seeds, output, client, progress):
            click.echo(text)
    for name in MADE:
        click.echo(clean(f"tables: {join(output, name)}"))
