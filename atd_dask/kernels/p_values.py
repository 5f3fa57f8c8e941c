"""Combines several p-values of the same data into one.

With k the smallest majority of n, the combined p-value is n/k times the k-th smallest. It is valid
however the n depend on each other: it is at most a only if k of them are at most a k/n. Under the
null hypothesis a k of the n are expected to be that small, so by Markov's inequality the
probability that k of them are is at most a.
"""

from __future__ import annotations

from collections.abc import Sequence


def count_majority(n: int) -> int:
    """Return the smallest number that is more than half of n."""
    return n // 2 + 1


def combine_p_values(p_values: Sequence[float]) -> float:
    """Combine p-values of the same data, whatever their dependence."""
    majority = count_majority(len(p_values))
    return min(1.0, len(p_values) / majority * sorted(p_values)[majority - 1])
