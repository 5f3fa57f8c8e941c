"""The level at which each of a series of sweeps is tested, so that false alarms stay within bounds.

Sweeps whose windows overlap share documents, so their p-values depend on each other. Neither rule
below is affected: a rate adds up expectations, and a share counts an alarm only for sweeps that
have no document in common with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

# Of the share, what may be spent before the first alarm.
FIRST_PART = 0.5

# The sum over all j of log(max(j, 2)) / (j exp(sqrt(log j))) is 12.645.
SUM_OF_WEIGHTS = 12.65


def level_for_rate(per_year: float, sweeps: int) -> float:
    """Return the level for alpha spending at a constant rate: the accepted false alarms of a year,
    spread evenly over its sweeps. By linearity of expectation the year has no more of them on
    average, however its sweeps depend on each other."""
    return per_year / sweeps


def level_for_share(share: float, test: int, alarms: Sequence[int], lag: int) -> float:
    """LORD under local dependence (Zrnic, Ramdas and Jordan, 2021): the level of a test.

    Every test spends a part of what the share allows, and every alarm earns more for those that
    come after. Tests depend on each other up to `lag` apart, so an alarm counts from the test
    after those. The expected false alarms are then at most this share of the expected alarms.

    Parameters
    ----------
    share
        The share of alarms that may be false.
    test
        The number of the test, from 1.
    alarms
        The numbers of the tests before it that raised an alarm, ascending.
    lag
        How far apart two tests may be that share documents.
    """
    level = FIRST_PART * share * weight(test)
    for number, alarm in enumerate(alarms):
        age = test - alarm - lag
        if age > 0:
            earned = share if number else (1 - FIRST_PART) * share
            level += earned * weight(age)
    return level


def weight(age: int) -> float:
    """Return what is spent of a unit after this many tests; the weights of all ages sum to at most
    1.

    They fall slowly (Javanmard and Montanari, 2018), so that a long time without an alarm still
    leaves something for the next.
    """
    return math.log(max(age, 2)) / (age * math.exp(math.sqrt(math.log(age)))) / SUM_OF_WEIGHTS
