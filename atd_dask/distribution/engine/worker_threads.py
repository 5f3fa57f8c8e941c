"""How many threads a task may use."""

from __future__ import annotations


def count_own_threads() -> int:
    """Return how many threads the task that asks may use now: its worker's, shared with the other
    tasks that run there."""
    from distributed import get_worker

    state = get_worker().state
    return max(state.nthreads // max(state.executing_count, 1), 1)
