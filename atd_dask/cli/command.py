"""The command `atd-dask`, also available as `dask atd`.

Results go to standard output, everything else to standard error. Commands import what they need
when they run, so that help is instant.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from atd_dask.cli.bench_commands import bench
from atd_dask.cli.common_options import (
    FOUND,
    PROGRESS,
    exit_code_option,
    job_options,
    logging_options,
    scheduler_option,
    set_option,
    sweep_options,
)
from atd_dask.cli.stopping import STOPPED, SignalError, stopping_on_request
from atd_dask.errors import AtdError, ConfigError, UserError
from atd_dask.version import __version__
from atd_dask.wording import clean

if TYPE_CHECKING:
    from atd_dask.config.run_config import RunConfig
    from atd_dask.distribution.engine.clients import Client
    from atd_dask.distribution.engine.lazy_client import LazyClient
    from atd_dask.pipelines.run import RunProducts
    from atd_dask.progress import Progress

# Exit statuses besides 0 for success, and FOUND. A command stopped by a signal exits with 128 plus
# the number of the signal, as in shells.
FAILED, MISTAKEN = 1, 2


class Commands(click.Group):
    """Turns errors into a sentence and an exit status."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except (click.exceptions.Exit, click.ClickException):
            raise
        except BrokenPipeError:
            # The reader is gone; Python must not write to the broken pipe again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(FAILED)
        except (KeyboardInterrupt, click.Abort) as error:
            _find_progress(ctx).error("Stopped on request; run the same command again to resume.")
            number = error.number if isinstance(error, SignalError) else signal.SIGINT
            ctx.exit(STOPPED + number)
        except Exception as error:
            ctx.exit(_report(error, ctx))
        return result


def _report(error: Exception, ctx: click.Context) -> int:
    progress = _find_progress(ctx)
    if progress.verbose:
        traceback.print_exception(error)
    if isinstance(error, UserError):
        for problem in error.problems if isinstance(error, ConfigError) else (str(error),):
            progress.error(problem)
        return MISTAKEN
    if isinstance(error, AtdError):
        progress.error(str(error))
        return FAILED
    message = ": ".join([type(error).__name__, *str(error).splitlines()[:1]])
    hint = "" if progress.verbose else "; --verbose shows the traceback"
    progress.error(f"{message}{hint}")
    return FAILED


def _find_progress(ctx: click.Context) -> Progress:
    from atd_dask.cli.outputs import make_progress

    progress: Progress = ctx.meta.get(PROGRESS) or make_progress()
    return progress


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="atd-dask")
def atd() -> None:
    """Find groups of documents that share an unusual topic, and what the topic is."""


@atd.command()
@exit_code_option
@job_options
def run(exit_code: bool, **options: Any) -> None:
    """Run the whole job that the file CONF describes."""
    _run_job(None, exit_code, **options)


@atd.command()
@job_options
def ingest(**options: Any) -> None:
    """Read the documents of CONF into corpus stores."""
    _run_job("ingest", **options)


@atd.command()
@job_options
def train(**options: Any) -> None:
    """Train the null model of CONF on its training store."""
    _run_job("train", **options)


@atd.command()
@exit_code_option
@job_options
def detect(exit_code: bool, **options: Any) -> None:
    """Find clusters in the test store of CONF, using its null model."""
    _run_job("detect", exit_code, **options)


@atd.command()
@exit_code_option
@sweep_options
def sweep(exit_code: bool, progress: Progress, **options: Any) -> None:
    """Test what is new in the repository of CONF since the last sweep."""
    from atd_dask.cli.printing import print_sweeps

    with _prepare_job(progress=progress, **options) as (config, client):
        from atd_dask.pipelines.sweep import sweep as sweep_repository

        outcome = sweep_repository(config, client, progress, _find_command())
    print_sweeps(config.output, outcome.lines, outcome.alerts)
    if exit_code and outcome.alerts:
        click.get_current_context().exit(FOUND)
    if outcome.undelivered:
        click.get_current_context().exit(FAILED)


@atd.command()
@click.option(
    "--batch",
    type=click.IntRange(min=1),
    help="Documents per batch; by default as many as in the run's batch, or else a fifth of the"
    " normal documents.",
)
@click.option(
    "--nothing",
    default=200,
    type=click.IntRange(min=2),
    help="How many batches to draw with nothing in them.",
)
@click.option(
    "--planted",
    default=20,
    type=click.IntRange(min=1),
    help="How many groups to plant of each size and share.",
)
@sweep_options
def calibrate(
    batch: int | None, nothing: int, planted: int, progress: Progress, **options: Any
) -> None:
    """Measure, on the normal documents of CONF, what it would find and how often it would raise a
    false alarm."""
    from atd_dask.cli.calibrate_command import print_figures

    with _prepare_job(progress=progress, **options) as (config, client):
        from atd_dask.pipelines.calibrate import calibrate as measure

        figures = measure(config, batch, nothing, planted, client.open(), progress)
    print_figures(config.output, figures)


@atd.command()
@click.argument("run")
@logging_options
def report(run: str, progress: Progress) -> None:
    """Rewrite the report of the run in the folder RUN."""
    from atd_dask.pipelines.report import write_report
    from atd_dask.storage.ownership import hold_output
    from atd_dask.storage.runs import list_outputs

    with ExitStack() as stack:
        if list_outputs(run):  # leave a folder alone that is not a run
            stack.enter_context(stopping_on_request())
            stack.enter_context(hold_output(run, progress.warn))
        click.echo(clean(f"report: {write_report(run)}"))


def _run_job(
    stage: str | None, exit_code: bool = False, *, fresh: bool, progress: Progress, **options: Any
) -> None:
    """Run one stage or all of them, print the results, and exit with the requested status."""
    from atd_dask.storage.runs import is_finished

    with _prepare_job(progress=progress, **options) as (config, client):
        from atd_dask.pipelines.run import STAGES
        from atd_dask.pipelines.run import run as run_stages

        stages = tuple(STAGES) if stage is None else (stage,)
        progress.say(f"{config.name}: {', '.join(stages)}", output=config.output)
        if fresh or options["performance_report"] or not is_finished(config.output, stages):
            client.open()
        made = run_stages(
            config, client, progress, fresh=fresh, stages=stages, command=_find_command()
        )
    _print_made(config.output, made)
    if exit_code and made.result is not None and made.result.significant:
        click.get_current_context().exit(FOUND)


def _print_made(output: str, made: RunProducts) -> None:
    from atd_dask.cli.printing import print_clusters, print_corpora, print_model, print_outputs
    from atd_dask.storage.runs import list_outputs

    if made.corpus is not None:
        print_corpora(made.corpus)
    if made.null_model is not None:
        print_model(made.null_model)
    if made.result is not None:
        print_clusters(made.result)
        print_outputs(list_outputs(output))


def _find_command() -> list[str]:
    return [Path(sys.argv[0]).name, *sys.argv[1:]]


@contextmanager
def _prepare_job(
    conf: str,
    overrides: tuple[str, ...],
    scheduler: str | None,
    output: str | None,
    performance_report: str | None,
    metrics_file: str | None,
    progress: Progress,
) -> Iterator[tuple[RunConfig, LazyClient]]:
    """Lock the output folder, and yield the configuration and a client that connects on first
    use."""
    from atd_dask.cli.outputs import redirect_logs
    from atd_dask.config.loader import load
    from atd_dask.distribution.engine.clients import connect, load_dask
    from atd_dask.distribution.engine.counters import keep_counts
    from atd_dask.distribution.engine.lazy_client import LazyClient
    from atd_dask.distribution.engine.observation import hush_when_stopped, report_performance
    from atd_dask.storage.ownership import hold_output

    if output is not None:
        overrides = (*overrides, f"output={json.dumps(output, ensure_ascii=False)}")
    config = load(conf, overrides, progress.warn)
    try:
        with (
            stopping_on_request(),
            progress.never_silent(),
            hold_output(config.output, progress.warn),
            keep_counts(metrics_file, config.name, progress.warn),
            ExitStack() as cluster,
        ):

            def start() -> Client:
                load_dask()
                cluster.enter_context(redirect_logs(progress))
                # Once the work is done, nobody cares whether workers are slow to exit.
                nannies = logging.getLogger("distributed.nanny")
                cluster.callback(nannies.setLevel, nannies.level)
                client = cluster.enter_context(connect(config.cluster, scheduler, progress.verbose))
                cluster.callback(nannies.setLevel, logging.ERROR)
                cluster.enter_context(hush_when_stopped(client))
                _introduce(client, progress)
                cluster.enter_context(report_performance(client, performance_report, progress.warn))
                return client

            yield config, LazyClient(start)
    except BrokenPipeError as error:
        # This one is an ordinary failure, unlike a reader that closes our output.
        raise ConnectionError(*error.args) from error


def _introduce(client: Client, progress: Progress) -> None:
    """Report where the job runs, and warn if the cluster is unfit for it."""
    from atd_dask.distribution.engine.observation import (
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
@set_option
@click.option(
    "--connect", "try_cluster", is_flag=True, help="Also try to connect to the Dask cluster."
)
@click.option("--keys", is_flag=True, help="List all keys of a configuration as Markdown.")
@logging_options
def validate(
    conf: str | None,
    overrides: tuple[str, ...],
    try_cluster: bool,
    keys: bool,
    progress: Progress,
) -> None:
    """List every mistake in the file CONF, without running it."""
    from atd_dask.config.loader import load, make_table

    if keys:
        click.echo(make_table())
    if conf is None:
        if not keys:
            raise click.UsageError("Missing argument 'CONF'.")
        return
    config = load(conf, overrides, progress.warn)
    click.echo(f"{clean(conf)}: no mistakes")
    if try_cluster:
        from atd_dask.distribution.engine.clients import connect
        from atd_dask.distribution.engine.observation import describe_cluster

        with connect(config.cluster, dask_logs=progress.verbose) as client:
            cluster = describe_cluster(client)
            click.echo(f"{cluster.address} answers, workers: {cluster.workers}")


@atd.command()
@click.argument("path")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@logging_options
def inspect(path: str, as_json: bool, progress: Progress) -> None:
    """Describe the store, or the output folder of a run or of sweeps, at PATH."""
    from atd_dask.cli.printing import format_facts, print_run
    from atd_dask.storage.inspection import describe
    from atd_dask.storage.runs import describe_run
    from atd_dask.sweeps.summary import describe_sweeps

    run = describe_run(path)
    if run is not None and not as_json:
        print_run(run)
        return
    facts = run.to_json() if run is not None else describe_sweeps(path) or describe(path)
    click.echo(json.dumps(facts, indent=2) if as_json else "\n".join(format_facts(facts)))


@atd.command()
@click.argument("path")
@logging_options
@click.pass_context
def verify(ctx: click.Context, path: str, progress: Progress) -> None:
    """Verify the checksums of the store at PATH, or of all stores and results in the output folder
    of a run or of sweeps."""
    from atd_dask.storage.verification import find_stores, verify_files
    from atd_dask.storage.verification import verify as find_damage

    damaged = False
    for store in find_stores(path):
        problems = find_damage(store)
        for problem in problems or ["no damage"]:
            click.echo(clean(f"{store}: {problem}"))
        damaged |= bool(problems)
    for problem in verify_files(path):
        click.echo(clean(problem))
        damaged = True
    if damaged:
        ctx.exit(FAILED)


@atd.command()
@click.argument("corpora", metavar="[CORPUS]...", nargs=-1)
@click.option("--corpora", "folder", metavar="DIR", help="Take prepared corpora from this folder.")
@click.option("--seeds", default=3, type=click.IntRange(min=1), help="How many seeds to use.")
@click.option("--output", metavar="DIR", default="runs/reproduce", help="Write the tables here.")
@scheduler_option
@logging_options
def reproduce(corpora: tuple[str, ...], **options: Any) -> None:
    """Reproduce the paper's tables for each CORPUS (reuters synthetic newsgroups)."""
    from atd_dask.cli.reproduce_command import make_tables

    with stopping_on_request():
        make_tables(
            corpora or ("reuters", "synthetic", "newsgroups"), introduce=_introduce, **options
        )


atd.add_command(bench)


def main() -> None:
    """Run `atd-dask`."""
    atd(prog_name="atd-dask")
