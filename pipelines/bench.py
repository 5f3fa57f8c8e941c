"""The benches, each with the stages that it measures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from atd_dask.pipelines.ingest import ingest
from atd_dask.pipelines.sweep import sweep

if TYPE_CHECKING:
    from atd_dask.bench.large_job import LargeJob
    from atd_dask.bench.order_search import Compared
    from atd_dask.bench.problem_suite import Request
    from atd_dask.bench.sweep_simulation import Simulation
    from atd_dask.bench.usage import Row
    from atd_dask.config.run_config import DetectionConfig, RunConfig
    from atd_dask.distribution.engine.clients import Client
    from atd_dask.progress import Progress


def bench_ingest(n_docs: int, progress: Progress) -> list[Row]:
    """Measure ingest of generated documents, next to scikit-learn's CountVectorizer."""
    from atd_dask.bench import ingest_speed

    return ingest_speed.bench_ingest(n_docs, ingest, progress)


def bench_scale(jobs: Sequence[LargeJob], progress: Progress) -> list[Row]:
    """Measure whole jobs on generated documents, stage by stage."""
    from atd_dask.bench import large_job
    from atd_dask.pipelines.run import run

    def run_stage(stage: str, config: RunConfig, client: Client, progress: Progress) -> None:
        run(config, client, progress, stages=(stage,))

    return large_job.bench_scale(jobs, run_stage, progress)


def bench_training(
    names: Sequence[str], corpora: str | None, n_seeds: int, progress: Progress
) -> Iterator[list[Row]]:
    """Measure training on the paper's corpora, next to the LDA of other packages."""
    from atd_dask.bench import training_quality

    return training_quality.bench_training(names, corpora, n_seeds, ingest, progress)


def bench_orders(asked: Compared, progress: Progress) -> Iterator[list[Row]]:
    """Compare the search over numbers of topics with one that tries every number."""
    from atd_dask.bench import order_search

    return order_search.bench_orders(asked, ingest, progress)


def bench_threads(asked: Compared, progress: Progress) -> list[Row]:
    """Time the search over numbers of topics on several threads."""
    from atd_dask.bench import order_search

    return order_search.bench_threads(asked, ingest, progress)


def bench_detection(
    names: Sequence[str],
    corpora: str | None,
    n_seeds: int,
    variants: Mapping[str, DetectionConfig],
    progress: Progress,
) -> Iterator[list[Row]]:
    """Measure detection in the paper's corpora, by several rules."""
    from atd_dask.bench import detection_quality

    return detection_quality.bench_detection(names, corpora, n_seeds, variants, ingest, progress)


def bench_speed(
    name: str, corpora: str | None, reference: str | None, progress: Progress
) -> list[Row]:
    """Measure the parts of a detection one by one."""
    from atd_dask.bench import detection_quality

    return detection_quality.bench_speed(name, corpora, reference, ingest, progress)


def bench_problems(
    request: Request,
    given: str | RunConfig | None,
    output: str,
    client: Client,
    progress: Progress,
) -> str:
    """Measure detection in random problems."""
    from atd_dask.bench import problem_suite

    return problem_suite.bench_problems(request, given, output, client, ingest, progress)


def bench_sweeps(
    asked: Simulation, folder: str | None, overrides: Sequence[str], progress: Progress
) -> list[Row]:
    """Measure daily sweeps of a simulated repository."""
    from atd_dask.bench import sweep_simulation

    return sweep_simulation.bench_sweeps(asked, folder, overrides, sweep, progress)


def bench_find(n_normal: int, n_batch: int, repeats: int, progress: Progress) -> list[Row]:
    """Measure `find` on strings, in new processes."""
    from atd_dask.bench import first_find

    return first_find.bench_find(n_normal, n_batch, repeats, progress)
