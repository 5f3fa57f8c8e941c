"""Measures what a pass of training costs Dask's scheduler on a large cluster.

The cluster is simulated: the scheduler is real, tasks sleep for as long as a block takes, and their
results are small. What is measured is CPU time and memory of the scheduler's process, and the CPU
time of the client's.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from atd_dask.bench.usage import Row
from atd_dask.distribution.block_groups import BRANCHES
from atd_dask.distribution.engine.runner import RemoteResults, Runner
from atd_dask.distribution.engine.simulation import Simulated, simulate_cluster

if TYPE_CHECKING:
    from atd_dask.progress import Progress

MOST_SECONDS = 300.0  # for a pass, and for the blocks before it


def bench_scheduler(
    sizes: Sequence[int], tasks_per_worker: int, seconds: float, progress: Progress
) -> list[Row]:
    """Return a row for each number of workers: a pass with this many blocks per worker."""
    rows: list[Row] = []
    for n_workers in sorted(sizes):
        with progress.task(f"simulate {n_workers:,} workers", 2) as task:
            with simulate_cluster(n_workers) as cluster:
                task.advance()
                rows.append(measure_pass(cluster, n_workers, tasks_per_worker, seconds))
            task.advance()
    return rows


def measure_pass(cluster: Simulated, n_workers: int, tasks_per_worker: int, seconds: float) -> Row:
    import psutil

    scheduler = psutil.Process(cluster.scheduler_pid)

    def cpu_seconds() -> float:
        times = scheduler.cpu_times()
        return float(times.user + times.system)

    runner = Runner(cluster.client)
    n_blocks = n_workers * tasks_per_worker
    blocks = runner.keep(hold_block, seconds, range(n_blocks), spread=True)
    wait_for_sum(cluster, runner, blocks)
    memory = scheduler.memory_info().rss
    start, before, mine = time.perf_counter(), cpu_seconds(), time.process_time()
    n_tasks = simulate_pass(cluster, runner, blocks, seconds)
    wall, used = time.perf_counter() - start, cpu_seconds() - before
    mine = time.process_time() - mine
    return {
        "workers": n_workers,
        "blocks": len(blocks.results),
        "tasks": n_tasks,
        "seconds": round(wall, 2),
        "seconds_of_work": round(tasks_per_worker * seconds, 2),
        "scheduler_cpu_seconds": round(used, 2),
        "scheduler_milliseconds_per_task": round(1e3 * used / n_tasks, 3),
        "client_milliseconds_per_task": round(1e3 * mine / n_tasks, 3),
        "scheduler_megabytes": round(scheduler.memory_info().rss / 1e6),
        "bytes_per_task": round((scheduler.memory_info().rss - memory) / n_tasks),
    }


def simulate_pass(cluster: Simulated, runner: Runner, blocks: RemoteResults, seconds: float) -> int:
    """Run the tasks of a pass: a fit and the part of it that is kept, for each block, and the tree
    of sums. Return their number."""
    fitted = runner.keep_all(fit_block, blocks, seconds)
    kept = runner.keep_all(keep_part, fitted, None)
    n_sums = wait_for_sum(cluster, runner, fitted)
    runner.drop(kept)
    runner.drop(fitted)
    return 2 * len(blocks.results) + n_sums


def wait_for_sum(cluster: Simulated, runner: Runner, parts: RemoteResults) -> int:
    """Wait for the sum over all blocks; return how many tasks it took."""
    whole = runner.reduce(add_blocks, parts, 0, BRANCHES)
    cluster.wait(whole.results[0], MOST_SECONDS)
    ((n_blocks, n_tasks),) = runner.ask(keep_part, whole, [(0, None)])
    assert n_blocks == len(parts.results)
    return int(n_tasks)


# What stands for a part of a corpus: how many blocks it has, and how many tasks have added them up.
Part = tuple[int, int]


def hold_block(seconds: float, number: int) -> Part:
    return 1, 0


def fit_block(block: Part, seconds: float) -> Part:
    time.sleep(seconds)
    return block


def keep_part(part: Part, _: None) -> Part:
    return part


def add_blocks(parts: Sequence[Part], _: int) -> Part:
    return sum(n for n, _ in parts), 1 + sum(n for _, n in parts)
