"""How often something happened, with a confidence interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from atd_dask.json_records import JsonRecord

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Rate(JsonRecord):
    """How often something happened, with the exact 95 % interval."""

    happened: int
    of: int
    low: float
    high: float

    @classmethod
    def count(cls, outcomes: Sequence[bool]) -> Rate:
        low, high = interval(sum(outcomes), len(outcomes))
        return cls(happened=sum(outcomes), of=len(outcomes), low=low, high=high)

    @property
    def share(self) -> float:
        return self.happened / self.of


def interval(hits: int, n: int) -> tuple[float, float]:
    """Return the exact confidence interval of a share, by Clopper and Pearson.

    Examples
    --------
    >>> low, high = interval(5, 100)
    >>> round(low, 3), round(high, 3)
    (0.016, 0.113)
    """
    from scipy.stats import beta

    tail = (1 - CONFIDENCE) / 2
    low = float(beta.ppf(tail, hits, n - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1 - tail, hits + 1, n - hits)) if hits < n else 1.0
    return low, high
