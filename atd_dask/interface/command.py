"""The command `atd-dask`, also reachable as `dask atd`.

Results go to standard output, everything else to standard error. What a command needs is loaded
when it runs, so that help comes at once.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from atd_dask import __version__
from atd_dask.errors import ConfigError, UserError
from atd_dask.interface.stopping import STOPPED, SignalError, stopping_on_request
from atd_dask.interface.wording import clean

if TYPE_CHECKING:
    from distributed import Client

    from atd_dask.distribution.lazy import LazyClient
    from atd_dask.interface.config import RunConfig
    from atd_dask.interface.progress import Progress

# Exit statuses beside 0, which is a command that has finished. One that was stopped by a signal
# ends with 128 and the number of the signal, as shells have it.
FAILED, MISTAKEN, FOUND = 1, 2, 3

_PROGRESS = f"{__name__}.progress"
_VERBOSE = f"{__name__}.verbose"


class Commands(click.Group):
    """Turns whatever goes wrong into a sentence and an exit status."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except (click.exceptions.Exit, click.ClickException):
            raise
        except BrokenPipeError:
            # The reader has gone; Python must not find the pipe broken again at its exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(FAILED)
        except (KeyboardInterrupt, click.Abort) as error:
            _find_progress(ctx).error("Stopped on request; run the same command again to go on.")
            number = error.number if isinstance(error, SignalError) else signal.SIGINT
            ctx.exit(STOPPED + number)
        except Exception as error:
            ctx.exit(_report(error, ctx))
        return result


def _report(error: Exception, ctx: click.Context) -> int:
    from atd_dask.storage.locks import LockedError

    progress = _find_progress(ctx)
    if ctx.meta.get(_VERBOSE):
        traceback.print_exception(error)
    if isinstance(error, UserError):
        for problem in error.problems if isinstance(error, ConfigError) else (str(error),):
            progress.error(problem)
        return MISTAKEN
    if isinstance(error, LockedError):
        progress.error(str(error))
        return FAILED
    message = ": ".join([type(error).__name__, *str(error).splitlines()[:1]])
    hint = "" if ctx.meta.get(_VERBOSE) else "; --verbose shows where it came from"
    progress.error(f"{message}{hint}")
    return FAILED


def _find_progress(ctx: click.Context) -> Progress:
    from atd_dask.interface.progress import make_progress

    progress: Progress = ctx.meta.get(_PROGRESS) or make_progress()
    return progress


def _logging_options(command: Callable[..., Any]) -> Callable[..., Any]:
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
        from atd_dask.interface.progress import make_progress

        ctx.meta[_VERBOSE] = verbose
        ctx.meta[_PROGRESS] = make_progress(log_format, quiet)
        return command(progress=ctx.meta[_PROGRESS], **arguments)

    return wrapped


_configuration = click.argument("conf")
_set = click.option(
    "--set",
    "overrides",
    metavar="KEY=VALUE",
    multiple=True,
    help="Put a value in the place of the configuration's, such as null_model.topics.max=20.",
)
_scheduler = click.option(
    "--scheduler", metavar="ADDRESS", help="Run on the Dask scheduler at this address."
)


def _job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What all commands take that run a job of a configuration."""
    fresh = click.option("--fresh", is_flag=True, help="Start over; nothing finished is reused.")
    return fresh(_sweep_options(command))


def _sweep_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """As a job, but for what must not be started over."""
    for option in (
        _logging_options,
        click.option(
            "--performance-report",
            metavar="FILE",
            help="Write Dask's own page on the run, as HTML.",
        ),
        click.option("--output", metavar="DIR", help="Put the results here."),
        _scheduler,
        _set,
        _configuration,
    ):
        command = option(command)
    return command


_exit_code = click.option(
    "--exit-code",
    is_flag=True,
    help=f"End with status {FOUND} if a significant cluster is found.",
)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="atd-dask")
def atd() -> None:
    """Find groups of documents that share an unusual topic, and what the topic is."""


@atd.command()
@_exit_code
@_job_options
def run(exit_code: bool, **options: Any) -> None:
    """Do the whole job that the file CONF describes."""
    from atd_dask.interface.tables import print_clusters, print_corpora, print_model

    output, made = _run_job(None, **options)
    print_corpora(made["corpus"])
    print_model(made["null_model"])
    print_clusters(made["result"])
    _conclude(output, made["result"], exit_code)


@atd.command()
@_job_options
def ingest(**options: Any) -> None:
    """Make the corpus stores of CONF from its documents."""
    from atd_dask.interface.tables import print_corpora

    print_corpora(_run_job("ingest", **options)[1]["corpus"])


@atd.command()
@_job_options
def train(**options: Any) -> None:
    """Train the null model of CONF on its training store."""
    from atd_dask.interface.tables import print_model

    print_model(_run_job("train", **options)[1]["null_model"])


@atd.command()
@_exit_code
@_job_options
def detect(exit_code: bool, **options: Any) -> None:
    """Find the clusters in the test store of CONF with its null model."""
    from atd_dask.interface.tables import print_clusters

    output, made = _run_job("detect", **options)
    print_clusters(made["result"])
    _conclude(output, made["result"], exit_code)


@atd.command()
@_exit_code
@_sweep_options
def sweep(exit_code: bool, progress: Progress, **options: Any) -> None:
    """Test what is new in the repository of CONF since the last sweep."""
    from atd_dask.interface.tables import print_sweeps

    with _prepare_job(progress=progress, **options) as (config, client):
        pipeline = import_module("atd_dask.pipelines.sweep")
        outcome = pipeline.sweep(config, client, progress, _find_command())
    print_sweeps(config.output, outcome.lines, outcome.alerts)
    if exit_code and outcome.alerts:
        click.get_current_context().exit(FOUND)
    if outcome.undelivered:
        click.get_current_context().exit(FAILED)


@atd.command()
@click.argument("run")
@_logging_options
def report(run: str, progress: Progress) -> None:
    """Make the page of the run in the folder RUN again."""
    from atd_dask.storage.locks import lock_folder
    from atd_dask.storage.runs import list_places

    write_report = import_module("atd_dask.pipelines.report").write_report
    with ExitStack() as stack:
        if list_places(run):  # a folder that is no run is left as it is
            stack.enter_context(stopping_on_request())
            stack.enter_context(lock_folder(run, progress.warn))
        click.echo(clean(f"report: {write_report(run)}"))


def _conclude(output: str, result: dict[str, Any], exit_code: bool) -> None:
    """Says where everything is, and ends with the status that was asked for."""
    from atd_dask.interface.tables import print_places
    from atd_dask.storage.runs import list_places

    print_places(list_places(output))
    if exit_code and any(cluster["significant"] for cluster in result["clusters"]):
        click.get_current_context().exit(FOUND)


def _run_job(
    stage: str | None, fresh: bool, progress: Progress, **options: Any
) -> tuple[str, dict[str, Any]]:
    """Runs one stage or all; gives the output folder, and what the stages made."""
    from atd_dask.storage.runs import is_finished

    with _prepare_job(progress=progress, **options) as (config, client):
        pipeline = import_module("atd_dask.pipelines.run")
        stages = tuple(pipeline.STAGES) if stage is None else (stage,)
        progress.say(f"{config.name}: {', '.join(stages)}", output=config.output)
        if fresh or options["performance_report"] or not is_finished(config.output, stages):
            client.open()
        made: dict[str, Any] = pipeline.run(
            config, client, progress, fresh=fresh, stages=stages, command=_find_command()
        )
    return config.output, made


def _find_command() -> list[str]:
    return [Path(sys.argv[0]).name, *sys.argv[1:]]


@contextmanager
def _prepare_job(
    conf: str,
    overrides: tuple[str, ...],
    scheduler: str | None,
    output: str | None,
    performance_report: str | None,
    progress: Progress,
) -> Iterator[tuple[RunConfig, LazyClient]]:
    """The configuration, and a cluster that starts when it is needed, with the output folder kept
    from others."""
    from atd_dask.distribution.clients import connect
    from atd_dask.distribution.lazy import LazyClient
    from atd_dask.distribution.observation import hush_when_stopped, report_performance
    from atd_dask.interface.config import load
    from atd_dask.interface.progress import redirect_logs
    from atd_dask.storage.locks import lock_folder

    if output is not None:
        overrides = (*overrides, f"output={json.dumps(output, ensure_ascii=False)}")
    config = load(conf, overrides)
    try:
        with (
            stopping_on_request(),
            lock_folder(config.output, progress.warn),
            ExitStack() as cluster,
        ):

            def start() -> Client:
                import_module("distributed")
                cluster.enter_context(redirect_logs(progress))
                client = cluster.enter_context(connect(config.cluster, scheduler))
                cluster.enter_context(hush_when_stopped(client))
                _introduce(client, progress)
                cluster.enter_context(report_performance(client, performance_report, progress.warn))
                return client

            yield config, LazyClient(start)
    except BrokenPipeError as error:
        # A failure like any other, whereas nobody reading the table below is none.
        raise ConnectionError(*error.args) from error


def _introduce(client: Client, progress: Progress) -> None:
    """Says where it runs, and whether that place is fit for it."""
    from atd_dask.distribution.observation import (
        compare_versions,
        describe_cluster,
        format_bytes,
    )

    cluster = describe_cluster(client)
    progress.say(
        f"on {cluster.address}",
        workers=cluster.workers,
        threads=cluster.threads,
        memory=format_bytes(cluster.memory_bytes) if cluster.memory_bytes else "no limit",
        dashboard=cluster.dashboard,
    )
    for warning in compare_versions(client):
        progress.warn(warning)


@atd.command()
@click.argument("conf", required=False)
@_set
@click.option("--connect", "try_cluster", is_flag=True, help="Also try the Dask cluster.")
@click.option("--keys", is_flag=True, help="List all keys of a configuration as Markdown.")
@_logging_options
def validate(
    conf: str | None,
    overrides: tuple[str, ...],
    try_cluster: bool,
    keys: bool,
    progress: Progress,
) -> None:
    """List every mistake in the file CONF, without running it."""
    from atd_dask.interface.config import load, make_table

    if keys:
        click.echo(make_table())
    if conf is None:
        if not keys:
            raise click.UsageError("Missing argument 'CONF'.")
        return
    config = load(conf, overrides)
    click.echo(f"{clean(conf)}: no mistakes")
    if try_cluster:
        from atd_dask.distribution.clients import connect

        with connect(config.cluster) as client:
            workers = len(cast(Any, client).nthreads())
            click.echo(f"{client.scheduler_info()['address']} answers, workers: {workers}")


@atd.command()
@click.argument("path")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_logging_options
def inspect(path: str, as_json: bool, progress: Progress) -> None:
    """Print what the store, or the output folder of a run, at PATH holds."""
    from atd_dask.interface.tables import format_facts, print_run
    from atd_dask.storage.inspection import describe
    from atd_dask.storage.runs import describe_run

    run = describe_run(path)
    facts = run or describe(path)
    if as_json:
        click.echo(json.dumps(facts, indent=2))
    elif run:
        print_run(run)
    else:
        click.echo("\n".join(format_facts(facts)))


@atd.command()
@click.argument("path")
@_logging_options
@click.pass_context
def verify(ctx: click.Context, path: str, progress: Progress) -> None:
    """Check that every byte of the store at PATH is as it was written."""
    from atd_dask.storage.verification import verify as find_damage

    problems = find_damage(path)
    for problem in problems:
        click.echo(clean(f"{path}: {problem}"))
    if problems:
        ctx.exit(FAILED)
    click.echo(f"{clean(path)}: no damage")


@atd.group()
def bench() -> None:
    """Measure this machine beside the tools that people know."""


@bench.command("ingest")
@click.option("--documents", default=1_000_000, help="How many documents to make.")
@_logging_options
def bench_ingest(documents: int, progress: Progress) -> None:
    """Ingest generated documents; scikit-learn's CountVectorizer reads the same text."""
    measure = import_module("atd_dask.pipelines.bench").bench_ingest
    _print_rows(measure(documents, progress))


@bench.command("train")
@click.argument("corpora", metavar="[CORPUS]...", nargs=-1)
@click.option("--corpora", "folder", metavar="DIR", help="Take prepared corpora from this folder.")
@click.option(
    "--seeds", default=5, type=click.IntRange(min=1), help="How many models of each kind to train."
)
@_logging_options
def bench_train(
    corpora: tuple[str, ...], folder: str | None, seeds: int, progress: Progress
) -> None:
    """Train on each CORPUS (reuters newsgroups) beside the LDA of other packages."""
    measure = import_module("atd_dask.pipelines.bench_training").bench_training
    names = corpora or ("reuters", "newsgroups")
    for rows in measure(names, folder, seeds, progress):
        _print_rows(rows)
        click.echo()


@bench.command("detect")
@click.argument("corpora", metavar="[CORPUS[:CLASS,CLASS]]...", nargs=-1)
@click.option("--corpora", "folder", metavar="DIR", help="Take prepared corpora from this folder.")
@click.option(
    "--seeds", default=5, type=click.IntRange(min=1), help="How many null models to detect with."
)
@click.option("--default-only", is_flag=True, help="Leave out the other rules, and the speed.")
@_logging_options
def bench_detect(
    corpora: tuple[str, ...],
    folder: str | None,
    seeds: int,
    default_only: bool,
    progress: Progress,
) -> None:
    """Detect in each CORPUS (reuters synthetic newsgroups) by every rule; with CLASSes, those are
    the anomalous ones. The speed is that on the first of them."""
    measurements = import_module("atd_dask.pipelines.bench_detection")
    names = corpora or ("reuters", "synthetic", "newsgroups")
    variants = measurements.list_variants()
    if default_only:
        variants = {"default": variants["default"]}
    else:
        _print_rows(measurements.bench_speed(names[0], folder, progress))
        click.echo()
    for rows in measurements.bench_detection(names, folder, seeds, variants, progress):
        _print_rows(rows)
        click.echo()


@bench.command("sweeps")
@click.option("--days", default=90, type=click.IntRange(min=1), help="How many days go by.")
@click.option("--documents", default=200, type=click.IntRange(min=20), help="Documents a day.")
@click.option("--outbreaks", default=3, help="How many unusual topics come up.")
@click.option("--seed", default=1, help="From which all chance follows.")
@click.option("--folder", metavar="DIR", help="Keep everything here; it must be empty.")
@_set
@_logging_options
def bench_sweeps(progress: Progress, **options: Any) -> None:
    """Sweep a simulated quarter, with outbreaks, drift and kills."""
    measure = import_module("atd_dask.pipelines.bench_sweeps").bench_sweeps
    _print_rows(measure(progress=progress, **options))


def _print_rows(rows: list[dict[str, Any]]) -> None:
    from atd_dask.interface.tables import print_table

    print_table(list(rows[0]), [[_show(value) for value in row.values()] for row in rows])


def _show(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def main() -> None:
    """The entry point of `atd-dask`."""
    atd(prog_name="atd-dask")
