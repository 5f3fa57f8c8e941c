"""The interfaces for the checkpoints and the progress of a detection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from atd_dask.kernels.calibration import HeldOutSearch
from atd_dask.kernels.cluster_growth import Growth
from atd_dask.kernels.model import Floats
from atd_dask.kernels.proposals import Proposal


@dataclass(frozen=True)
class Growing:
    """A candidate has grown to `size` documents, and is still growing."""

    cluster: int
    size: int
    score: float
    tested: int  # membership tests so far
    failed: int


@dataclass(frozen=True)
class Grown:
    """A candidate is complete."""

    cluster: int
    size: int
    support: float | None


@dataclass(frozen=True)
class ReplicatesDone:
    """Some replicates of the bootstrap test of a candidate are done."""

    cluster: int
    done: int
    p_value: float


@dataclass(frozen=True)
class SearchesDone:
    """Some searches in held-out documents are done."""

    done: int
    largest_support: float


DetectionEvent = Growing | Grown | ReplicatesDone | SearchesDone
OnProgress = Callable[[DetectionEvent], None]


def ignore_progress(event: DetectionEvent) -> None:
    pass


class Checkpointer(Protocol):
    """Saves finished work, so that a detection can be resumed. It is sent to workers."""

    def load_growth(self, index: int) -> Growth | None: ...

    def save_growth(self, index: int, growth: Growth) -> None: ...

    def load_scores(self, index: int) -> Floats: ...

    def save_scores(self, index: int, scores: Floats) -> None: ...

    def load_proposals(self, index: int) -> list[Proposal] | None: ...

    def save_proposals(self, index: int, proposals: Sequence[Proposal]) -> None: ...

    def load_calibration(self) -> list[HeldOutSearch]: ...

    def save_calibration(self, searches: Sequence[HeldOutSearch]) -> None: ...


class NoCheckpoints:
    """For a detection that need not be resumable."""

    def load_growth(self, index: int) -> Growth | None:
        return None

    def save_growth(self, index: int, growth: Growth) -> None:
        pass

    def load_scores(self, index: int) -> Floats:
        return np.zeros(0)

    def save_scores(self, index: int, scores: Floats) -> None:
        pass

    def load_proposals(self, index: int) -> list[Proposal] | None:
        return None

    def save_proposals(self, index: int, proposals: Sequence[Proposal]) -> None:
        pass

    def load_calibration(self) -> list[HeldOutSearch]:
        return []

    def save_calibration(self, searches: Sequence[HeldOutSearch]) -> None:
        pass
