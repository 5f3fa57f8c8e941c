"""Measures how often large batches with nothing planted raise an alarm.

Normal documents are generated, and batches from the same topics. A batch is searched as in a
detection, and its best candidate is judged by searches in held-out normal documents, which all
batches share. There is no null model: it does not take part in the search.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from atd_dask.bench.large_batch import Shape, draw_documents, write_part
from atd_dask.bench.usage import Row, measure
from atd_dask.config.cluster_options import ClusterOptions, LocalOptions
from atd_dask.config.rules import make_rules
from atd_dask.config.run_config import DetectionConfig
from atd_dask.distribution.calibration import Calibration, HeldOutSearches, find_best
from atd_dask.distribution.checkpointing import NoCheckpoints, SearchesDone
from atd_dask.distribution.engine.clients import connect
from atd_dask.distribution.engine.runner import Runner
from atd_dask.kernels.blocks import MemoryCorpus
from atd_dask.kernels.calibration import estimate_p_value, list_support
from atd_dask.kernels.model import Block

if TYPE_CHECKING:
    from atd_dask.progress import Progress

LEVELS = (0.01, 0.05, 0.2)
TRAINED_TO_VALIDATION = 9  # documents, as in a job
WORKERS = 2

NO_ROWS = np.zeros(0, np.int64)


@dataclass(frozen=True)
class NullBatches:
    """What is to be searched: batches like the normal documents."""

    n_normal: int
    n_batch: int
    n_batches: int
    shape: Shape


def bench_nulls(asked: Sequence[NullBatches], progress: Progress) -> list[Row]:
    """Return a row for each collection of normal documents."""
    options = ClusterOptions(local=LocalOptions(workers=WORKERS, threads=1))
    rows = []
    for one in asked:
        with (
            tempfile.TemporaryDirectory(prefix="atd-dask-bench-") as folder,
            connect(options) as client,
            measure() as usage,
        ):
            row = search_nulls(one, Path(folder), Runner(client), progress)
        rows.append({**row, "CPU s": round(usage.cpu_seconds)})
    return rows


def search_nulls(asked: NullBatches, folder: Path, runner: Runner, progress: Progress) -> Row:
    n_validation = asked.n_normal // (TRAINED_TO_VALIDATION + 1)
    sizes = {"train": asked.n_normal - n_validation, "validation": n_validation}
    with progress.task("write documents", asked.n_normal, "documents") as task:
        stores = {
            part: write_part(folder / part, part, size, NO_ROWS, task.advance, asked.shape)
            for part, size in sizes.items()
        }
    rules = make_rules(DetectionConfig())
    calibration = Calibration(stores, rules, asked.n_batch, asked.shape.seed)
    with progress.task("search batches", asked.n_batches, "batches") as task:
        supports = []
        for support in runner.map(search_null, (calibration, asked), range(asked.n_batches)):
            supports.append(support)
            task.advance()
    with progress.task("search held-out documents", rules.searches, "searches") as task:

        def show(event: object) -> None:
            if isinstance(event, SearchesDone):
                task.advance()

        held_out = HeldOutSearches(calibration, runner, NoCheckpoints(), show)
        references = list_support(held_out.take(rules.searches))
    p_values = [
        estimate_p_value(support, list_support(held_out.take_for(support))) for support in supports
    ]
    return {
        "seed": asked.shape.seed,
        "normal documents": asked.n_normal,
        "batch": asked.n_batch,
        "batches": asked.n_batches,
        **{f"at most {level:g}": sum(p <= level for p in p_values) for level in LEVELS},
        "p-values": " ".join(f"{p:.2g}" for p in sorted(p_values)),
        "support": _describe(supports),
        "held-out support": _describe(references.tolist()),
        "held-out searches": len(references),
        **{
            f"of these at most {level:g}": sum(p <= level for p in judge_by_others(references))
            for level in LEVELS
        },
    }


def search_null(given: tuple[Calibration, NullBatches], number: int) -> float:
    """Draw a batch with nothing planted, and return the largest support in it."""
    calibration, asked = given
    drawn = draw_documents(f"nothing/{number}", asked.n_batch, NO_ROWS, asked.shape)
    batch = Block.concatenate([Block(part.indptr, part.terms, part.counts) for part in drawn])
    documents = MemoryCorpus(batch, asked.shape.n_words)
    return find_best(Runner(), documents, calibration.normal, calibration.rules).support


def judge_by_others(references: np.ndarray) -> list[float]:
    """Return the p-value of each held-out search by the others, as if it were a batch."""
    return [
        estimate_p_value(support, np.delete(references, n)) for n, support in enumerate(references)
    ]


def _describe(values: Sequence[float]) -> str:
    return f"{np.mean(values):.1f} ± {np.std(values):.1f}, at most {max(values):.1f}"
