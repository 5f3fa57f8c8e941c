"""How many threads a task may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from distributed import Client


def share_local_threads(client: Client, n_tasks: int) -> int:
    """Return how many threads each of a few tasks may use while nothing else is done: on a cluster
    that was started for this client, on this machine, those of all workers, shared out. Elsewhere
    the other workers may have other work, so a task keeps to its own."""
    from distributed import LocalCluster

    if not isinstance(client.cluster, LocalCluster):
        return 1
    n_threads: int = sum(client.nthreads().values())
    return max(n_threads // max(n_tasks, 1), 1)


def count_own_threads() -> int:
    """Return how many threads the task that asks may use now: its worker's, shared with the other
    tasks that run there."""
    from distributed import get_worker

    state = get_worker().state
    return max(state.nthreads // max(state.executing_count, 1), 1)
