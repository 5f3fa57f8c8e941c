"""`atd-dask bench`: measures each part of the work on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from atd_dask.cli.common_options import logging_options, scheduler_option, set_option
from atd_dask.cli.stopping import stopping_on_request
from atd_dask.wording import clean

if TYPE_CHECKING:
    from atd_dask.bench.usage import Row
    from atd_dask.progress import Progress


@click.group()
def bench() -> None:
    """Run benchmarks on this machine, compared with well-known tools."""


@bench.command("ingest")
@click.option("--documents", default=1_000_000, help="How many documents to generate.")
@logging_options
def bench_ingest(documents: int, progress: Progress) -> None:
    """Ingest generated documents, and count them with scikit-learn's CountVectorizer."""
    from atd_dask.pipelines.bench import bench_ingest as measure

    _print_rows(measure(documents, progress))


@bench.command("train")
@click.argument("corpora", metavar="[CORPUS]...", nargs=-1)
@click.option("--corpora", "folder", metavar="DIR", help="Take prepared corpora from this folder.")
@click.option(
    "--seeds", default=5, type=click.IntRange(min=1), help="How many models of each kind to train."
)
@logging_options
def bench_train(
    corpora: tuple[str, ...], folder: str | None, seeds: int, progress: Progress
) -> None:
    """Train on each CORPUS (reuters newsgroups), next to the LDA of other packages."""
    from atd_dask.pipelines.bench import bench_training as measure

    names = corpora or ("reuters", "newsgroups")
    for rows in measure(names, folder, seeds, progress):
        _print_rows(rows)
        click.echo()


@bench.command("orders")
@click.argument("corpora", metavar="[CORPUS]...", nargs=-1)
@click.option("--corpora", "folder", metavar="DIR", help="Take prepared corpora from this folder.")
@click.option(
    "--documents",
    multiple=True,
    type=click.IntRange(min=100),
    help="Also generate so many documents; repeat the option for several tables.",
)
@click.option(
    "--words",
    default=5_000,
    type=click.IntRange(min=200),
    show_default=True,
    help="How many words generated documents have.",
)
@click.option(
    "--topics",
    default=10,
    type=click.IntRange(min=1),
    show_default=True,
    help="How many topics generated documents have.",
)
@click.option(
    "--seeds", default=5, type=click.IntRange(min=1), help="How many searches of each kind."
)
@click.option("--first", default=1, type=click.IntRange(min=0), help="The first seed.")
@click.option(
    "--threads",
    is_flag=True,
    help="Instead, time searches on a worker with one thread and on one with two, in turn.",
)
@logging_options
def bench_orders(
    corpora: tuple[str, ...],
    folder: str | None,
    documents: tuple[int, ...],
    threads: bool,
    progress: Progress,
    **numbers: int,
) -> None:
    """Compare the search over numbers of topics with one that tries every number, on each CORPUS
    (reuters synthetic newsgroups, unless there are generated documents)."""
    from atd_dask.bench.large_batch import Shape
    from atd_dask.bench.order_search import Compared
    from atd_dask.pipelines.bench import bench_orders as measure
    from atd_dask.pipelines.bench import bench_threads

    names = corpora or (() if documents else ("reuters", "synthetic", "newsgroups"))
    seeds = range(numbers["first"], numbers["first"] + numbers["seeds"])
    shape = Shape(numbers["words"], numbers["topics"])
    asked = Compared(names, folder, documents, shape, seeds)
    if threads:
        if not names:
            raise click.UsageError("--threads must be given with corpora, got only --documents")
        _print_rows(bench_threads(asked, progress))
        return
    for rows in measure(asked, progress):
        _print_rows(rows)
        click.echo()


@bench.command("detect")
@click.argument("corpora", metavar="[CORPUS[:CLASS,CLASS]]...", nargs=-1)
@click.option("--corpora", "folder", metavar="DIR", help="Take prepared corpora from this folder.")
@click.option(
    "--seeds", default=5, type=click.IntRange(min=1), help="How many null models to detect with."
)
@click.option("--default-only", is_flag=True, help="Skip the other rules and the speed.")
@click.option(
    "--reference",
    metavar="DIR",
    help="Measure only the speed, with the authors' null model from this folder.",
)
@logging_options
def bench_detect(
    corpora: tuple[str, ...],
    folder: str | None,
    seeds: int,
    default_only: bool,
    reference: str | None,
    progress: Progress,
) -> None:
    """Detect in each CORPUS (reuters synthetic newsgroups) by every rule, and measure the speed on
    the first one. With CLASSes, these are the anomalous ones."""
    from atd_dask.bench.detection_quality import list_variants
    from atd_dask.pipelines.bench import bench_detection, bench_speed

    names = corpora or ("reuters", "synthetic", "newsgroups")
    variants = list_variants()
    if default_only:
        variants = {"default": variants["default"]}
    if reference is not None or not default_only:
        _print_rows(bench_speed(names[0], folder, reference, progress))
        click.echo()
    if reference is not None:
        return
    for rows in bench_detection(names, folder, seeds, variants, progress):
        _print_rows(rows)
        click.echo()


@bench.command("problems")
@click.option("--corpora", metavar="DIR", help="Take prepared corpora from this folder.")
@click.option(
    "--config", "conf", metavar="CONF", help="Plant classes of these labelled documents instead."
)
@click.option(
    "--half",
    type=click.Choice(["choose", "report", "both"]),
    default="choose",
    help="Problems for choosing rules, problems for the final test, or both.",
)
@click.option("--only", metavar="GLOB", multiple=True, help="Only problems with matching names.")
@click.option(
    "--nulls/--no-nulls", default=True, help="Whether to include batches with nothing planted."
)
@click.option(
    "--seeds", default=1, type=click.IntRange(min=1), help="How many null models for each problem."
)
@click.option("--draw", default=1, type=click.IntRange(min=1), help="The seed of the problems.")
@click.option("--baselines", is_flag=True, help="Also rank batches by methods that see them whole.")
@click.option("--short", is_flag=True, help="Only a few small generated problems.")
@click.option(
    "--rules",
    type=click.Choice(["default", "paper", "without-new-words"]),
    default="default",
    help="The rules of detection.",
)
@click.option("--output", metavar="DIR", default="runs/problems", help="Write everything here.")
@scheduler_option
@logging_options
def bench_problems(
    corpora: str | None,
    conf: str | None,
    half: str,
    output: str,
    scheduler: str | None,
    progress: Progress,
    **wanted: Any,
) -> None:
    """Detect in random problems: classes planted in batches, and batches with nothing in them.
    Problems that are finished in the output folder are not repeated."""
    from atd_dask.bench.problem_suite import make_request
    from atd_dask.cli.outputs import redirect_logs
    from atd_dask.config.loader import load
    from atd_dask.distribution.engine.clients import connect
    from atd_dask.distribution.engine.observation import hush_when_stopped
    from atd_dask.pipelines.bench import bench_problems as measure
    from atd_dask.storage.ownership import hold_output

    if corpora is not None and conf is not None:
        raise click.UsageError("--corpora and --config must not be given together")
    request = make_request(half, **wanted)
    given = corpora if conf is None else load(conf, (), progress.warn)
    with (
        stopping_on_request(),
        hold_output(output, progress.warn),
        redirect_logs(progress),
        connect(scheduler=scheduler, dask_logs=progress.verbose) as client,
        hush_when_stopped(client),
    ):
        click.echo(measure(request, given, output, client, progress))
    click.echo(clean(f"all candidates: {output}/problems.md"))


@bench.command("job")
@click.argument("corpus", default="reuters")
@click.option("--corpora", "folder", metavar="DIR", help="Take prepared corpora from this folder.")
@logging_options
def bench_job(corpus: str, folder: str | None, progress: Progress) -> None:
    """Run the whole job of CORPUS (reuters, synthetic or newsgroups), and measure all processes."""
    from atd_dask.bench.whole_job import bench_job as measure

    _print_rows(measure(corpus, folder, progress))


@bench.command("find")
@click.option(
    "--normal", default=2000, type=click.IntRange(min=100), help="How many normal documents."
)
@click.option(
    "--batch", default=500, type=click.IntRange(min=20), help="How many documents to search."
)
@click.option("--repeats", default=3, type=click.IntRange(min=1), help="How many runs of each.")
@logging_options
def bench_find(normal: int, batch: int, repeats: int, progress: Progress) -> None:
    """Time `find()` on generated strings in new processes, with a cold and a warm cache."""
    from atd_dask.pipelines.bench import bench_find as measure

    _print_rows(measure(normal, batch, repeats, progress))


@bench.command("batch")
@click.option(
    "--documents",
    default=1_000_000,
    type=click.IntRange(min=100),
    help="How many documents to generate.",
)
@click.option("--train", default=200_000, show_default=True, help="How many normal documents.")
@click.option("--words", default=5_000, show_default=True, help="How many words there are.")
@click.option("--topics", default=10, show_default=True, help="How many normal topics.")
@click.option("--groups", default=1, show_default=True, help="How many groups are planted.")
@click.option("--group-size", default=200, show_default=True, help="Documents of a group.")
@click.option("--orders", default=1, show_default=True, help="How many numbers of topics to try.")
@click.option("--searches", default=0, show_default=True, help="How many held-out searches.")
@logging_options
def bench_batch(progress: Progress, **options: int) -> None:
    """Train on generated documents, and detect groups planted in a large batch of them."""
    from atd_dask.bench.large_batch import LargeBatch, Shape
    from atd_dask.bench.large_batch import bench_batch as measure

    shape = Shape(options["words"], options["topics"], options["groups"])
    given = LargeBatch(
        options["documents"],
        options["train"],
        shape,
        options["group_size"],
        options["orders"],
        options["searches"],
    )
    _print_rows(measure(given, progress))


@bench.command("passes")
@click.option(
    "--documents",
    multiple=True,
    default=(10_000, 100_000),
    type=click.IntRange(min=100),
    show_default=True,
    help="How many documents to make; repeat the option for several rows.",
)
@click.option(
    "--workers",
    multiple=True,
    default=(2,),
    type=click.IntRange(min=1),
    show_default=True,
    help="How many workers of one thread; several times for several rows.",
)
@click.option("--words", default=5_000, show_default=True, help="How many words there are.")
@click.option("--topics", default=10, show_default=True, help="How many topics to train.")
@click.option(
    "--same",
    is_flag=True,
    help="Instead, print a hash of the model without a cluster, with 1, 2 and 3 workers, and with"
    " one that is killed.",
)
@click.option(
    "--sampling",
    is_flag=True,
    help="Instead, compare a pass in one process with an iteration of tomotopy's Gibbs sampler.",
)
@click.option(
    "--steps",
    is_flag=True,
    help="Instead, time the steps of a pass in one process, next to a copy of memory.",
)
@click.option(
    "--contention",
    is_flag=True,
    help="Instead, time a pass in one process alone and in two at once, with nothing sent.",
)
@logging_options
def bench_passes(
    documents: tuple[int, ...],
    workers: tuple[int, ...],
    words: int,
    topics: int,
    progress: Progress,
    **instead: bool,
) -> None:
    """Pass over generated documents on a cluster, and see how the cost grows with them."""
    from atd_dask.bench import training_passes as bench
    from atd_dask.bench.core_contention import bench_contention
    from atd_dask.bench.large_batch import Shape

    shape = Shape(words, topics)
    measures = {
        "same": bench.bench_same,
        "sampling": bench.bench_sampling,
        "steps": bench.bench_steps,
        "contention": bench_contention,
    }
    for name, measure in measures.items():
        if instead[name]:
            _print_rows([row for n in documents for row in measure(n, shape, progress)])
            return
    _print_rows(bench.bench_passes(documents, workers, shape, progress))


@bench.command("scale")
@click.option(
    "--documents",
    multiple=True,
    default=(10_000, 100_000),
    type=click.IntRange(min=1_000),
    show_default=True,
    help="How many normal documents to make; several times for several rows.",
)
@click.option("--words", default=50_000, show_default=True, help="How many words there are.")
@click.option("--topics", default=100, show_default=True, help="How many normal topics.")
@click.option("--groups", default=5, show_default=True, help="How many groups are planted.")
@click.option("--group-size", default=50, show_default=True, help="Documents of a group.")
@click.option("--orders", default=1, show_default=True, help="How many numbers of topics to try.")
@click.option(
    "--nulls",
    type=click.IntRange(min=1),
    help="Instead, search this many batches with nothing planted, and count the alarms.",
)
@click.option("--seed", multiple=True, default=(1,), help="With --nulls: of documents to compare.")
@logging_options
def bench_scale(
    documents: tuple[int, ...],
    nulls: int | None,
    seed: tuple[int, ...],
    progress: Progress,
    **options: int,
) -> None:
    """Run the whole job on generated documents, with a tenth as many in the batch as normal ones,
    and see how its cost grows with them."""
    from atd_dask.bench.large_batch import Shape
    from atd_dask.bench.large_job import LargeJob
    from atd_dask.bench.null_batches import NullBatches, bench_nulls
    from atd_dask.pipelines.bench import bench_scale as measure

    shape = Shape(options["words"], options["topics"], options["groups"])
    if nulls is not None:
        made = [replace(shape, seed=one) for one in seed]
        asked = [NullBatches(n, n // 10, nulls, one) for n in documents for one in made]
        _print_rows(bench_nulls(asked, progress))
        return
    size, n_orders = options["group_size"], options["orders"]
    jobs = [LargeJob(n_docs, shape, size, n_orders) for n_docs in documents]
    _print_rows(measure(jobs, progress))


@bench.command("scheduler")
@click.option(
    "--workers",
    multiple=True,
    default=(200,),
    type=click.IntRange(min=1),
    show_default=True,
    help="How many workers to simulate; repeat the option for several rows.",
)
@click.option("--tasks", default=10, show_default=True, help="Blocks for each worker in a pass.")
@click.option("--seconds", default=1.0, show_default=True, help="How long a block takes.")
@logging_options
def bench_scheduler(
    workers: tuple[int, ...], tasks: int, seconds: float, progress: Progress
) -> None:
    """Simulate a pass on a large cluster, and see what it costs Dask's scheduler."""
    from atd_dask.bench.simulated_cluster import bench_scheduler as measure

    _print_rows(measure(workers, tasks, seconds, progress))


@bench.command("sweeps")
@click.option("--days", default=365, type=click.IntRange(min=1), help="How many days to simulate.")
@click.option("--documents", default=100, type=click.IntRange(min=20), help="Documents per day.")
@click.option("--outbreaks", default=8, help="How many unusual topics appear.")
@click.option("--per-year", default=2.0, help="How many false alarms per year to accept.")
@click.option(
    "--share",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Accept this share of all alarms instead.",
)
@click.option(
    "--killed",
    default=1 / 3,
    show_default="a third",
    type=click.FloatRange(0, 1),
    help="The share of sweeps to kill mid-run and restart.",
)
@click.option("--seed", default=1, help="The seed of the simulation.")
@click.option("--folder", metavar="DIR", help="Write everything here; must be empty.")
@set_option
@logging_options
def bench_sweeps(
    folder: str | None, overrides: Sequence[str], progress: Progress, **options: Any
) -> None:
    """Sweep a simulated year, with outbreaks, drift and kills."""
    from atd_dask.bench.sweep_simulation import Simulation
    from atd_dask.pipelines.bench import bench_sweeps as measure

    _print_rows(measure(Simulation(**options), folder, overrides, progress))


def _print_rows(rows: list[Row]) -> None:
    from atd_dask.cli.printing import print_table

    lines = [[_show(value) for value in row.values()] for row in rows]
    print_table(list(rows[0]), lines, width=None)


def _show(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)
