"""One p-value from several of the same data.

If k of n are more than half, it is n/k times the k-th smallest. That is a p-value however the n
depend on each other. It is at most a only if k of them are at most a k/n. Where there is nothing to
find, a k of the n are expected to be that small, so by Markov's inequality the chance that k are is
at most a.
"""

from __future__ import annotations

from collections.abc import Sequence


def count_majority(n: int) -> int:
    """Return the least number that is more than half."""
    return n // 2 + 1


def combine_p_values(p_values: Sequence[float]) -> float:
    """Return a p-value from several of the same data, whatever their dependence."""
    majority = count_majority(len(p_values))
    return min(1.0, len(p_values) / majority * sorted(p_values)[majority - 1])
