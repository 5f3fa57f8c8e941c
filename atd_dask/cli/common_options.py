"""Options that several commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

FOUND = 3  # the exit status for a significant cluster, with --exit-code

# The key of a command's context under which its progress is stored.
PROGRESS = f"{__name__}.progress"


def logging_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the logging options to a command, which receives them as `progress`."""

    @click.option("--quiet", is_flag=True, help="Show only warnings and errors.")
    @click.option("--verbose", is_flag=True, help="Show tracebacks, and what Dask logs.")
    @click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        help="Lines of text, or a JSON object per event.",
    )
    @click.pass_context
    @functools.wraps(command)
    def wrapped(
        ctx: click.Context, /, quiet: bool, verbose: bool, log_format: str, **arguments: Any
    ) -> Any:
        from atd_dask.cli.outputs import make_progress

        ctx.meta[PROGRESS] = make_progress(log_format, quiet, verbose)
        return command(progress=ctx.meta[PROGRESS], **arguments)

    return wrapped


configuration = click.argument("conf")
set_option = click.option(
    "--set",
    "overrides",
    metavar="KEY=VALUE",
    multiple=True,
    help="Override a key of the configuration, such as null_model.topics.max=20.",
)
scheduler_option = click.option(
    "--scheduler", metavar="ADDRESS", help="Run on the Dask scheduler at this address."
)


def job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of commands that run a job."""
    fresh = click.option(
        "--fresh", is_flag=True, help="Start over instead of reusing finished work."
    )
    return fresh(sweep_options(command))


def sweep_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a job, except --fresh: sweeps cannot be started over."""
    for option in (
        logging_options,
        click.option(
            "--performance-report",
            metavar="FILE",
            help="Write Dask's performance report of the run, as HTML.",
        ),
        click.option(
            "--metrics-file",
            metavar="FILE",
            help="Update the counters in FILE, for node_exporter to read.",
        ),
        click.option("--output", metavar="DIR", help="Write the results here."),
        scheduler_option,
        set_option,
        configuration,
    ):
        command = option(command)
    return command


exit_code_option = click.option(
    "--exit-code",
    is_flag=True,
    help=f"Exit with status {FOUND} if a significant cluster is found.",
)
