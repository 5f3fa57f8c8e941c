"""Options that several commands take."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

FOUND = 3  # the exit status that --exit-code asks for

# Where a command's context keeps what its options on logging say.
PROGRESS = f"{__name__}.progress"
VERBOSE = f"{__name__}.verbose"


def logging_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options on what is said; the command gets them as `progress`."""

    @click.option("--quiet", is_flag=True, help="Say nothing but warnings and errors.")
    @click.option("--verbose", is_flag=True, help="Show where an error came from.")
    @click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        help="Lines for people, or a JSON object an event.",
    )
    @click.pass_context
    @functools.wraps(command)
    def wrapped(
        ctx: click.Context, /, quiet: bool, verbose: bool, log_format: str, **arguments: Any
    ) -> Any:
        from atd_dask.cli.outputs import make_progress

        ctx.meta[VERBOSE] = verbose
        ctx.meta[PROGRESS] = make_progress(log_format, quiet)
        return command(progress=ctx.meta[PROGRESS], **arguments)

    return wrapped


configuration = click.argument("conf")
set_option = click.option(
    "--set",
    "overrides",
    metavar="KEY=VALUE",
    multiple=True,
    help="Put a value in the place of the configuration's, such as null_model.topics.max=20.",
)
scheduler_option = click.option(
    "--scheduler", metavar="ADDRESS", help="Run on the Dask scheduler at this address."
)


def job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What all commands take that run a job of a configuration."""
    fresh = click.option("--fresh", is_flag=True, help="Start over; nothing finished is reused.")
    return fresh(sweep_options(command))


def sweep_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """As a job, but for what must not be started over."""
    for option in (
        logging_options,
        click.option(
            "--performance-report",
            metavar="FILE",
            help="Write Dask's own page on the run, as HTML.",
        ),
        click.option(
            "--metrics-file",
            metavar="FILE",
            help="Add what was done to the counters in FILE, which node_exporter reads.",
        ),
        click.option("--output", metavar="DIR", help="Put the results here."),
        scheduler_option,
        set_option,
        configuration,
    ):
        command = option(command)
    return command


exit_code_option = click.option(
    "--exit-code",
    is_flag=True,
    help=f"End with status {FOUND} if a significant cluster is found.",
)
