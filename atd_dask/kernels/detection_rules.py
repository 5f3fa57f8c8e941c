"""The rules of a detection, and the clusters it finds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from atd_dask.kernels.alternative import Alternative, NullContext
from atd_dask.kernels.bootstrap import Pool
from atd_dask.kernels.calibration import HeldOutSearch, estimate_p_value, list_support
from atd_dask.kernels.cluster_growth import Growth, SettleRule, StopRule
from atd_dask.kernels.fitters import AuthorsFitter, Fitter
from atd_dask.kernels.fitting import Fit
from atd_dask.kernels.model import Block, Floats, WordTable


@dataclass(frozen=True)
class DetectionRules:
    """How candidates start, which documents belong to them, where donors come from, and how
    clusters are judged."""

    seeds: int
    stop: StopRule  # of growth
    settle: bool  # use the contrast search instead of growing one cluster to its end
    settling: SettleRule
    pool: str  # validation, validation+batch or train
    donors: int  # how many of the nearest documents a donor is drawn from; the paper uses 1
    replicates: int
    level: float
    searches: int  # in held-out documents
    failures: int  # insignificant candidates in a row that end the search
    remember: bool  # whether clusters count as known once they are found
    unseen: bool  # whether words that training lacks count
    max_clusters: int | None = None
    max_size: int | None = None
    lda: bool = False  # LDA instead of the parsimonious model
    authors: bool = False  # the authors' programs instead of the paper's equations

    @property
    def home(self) -> str:
        """The corpus that donors are drawn from."""
        return "train" if self.pool == "train" else "validation"

    @property
    def most_above(self) -> int:
        """The most replicates that may score higher than a significant cluster."""
        return int(np.floor(self.level * (self.replicates + 1) + 1e-9)) - 1

    def fitter(self, table: WordTable) -> Fitter:
        kind = AuthorsFitter if self.authors else Fitter
        return kind(NullContext.of(table, self.lda))

    def make_pool(self, fitter: Fitter, block: Block, fit: Fit) -> Pool:
        return Pool.of(fitter, block, fit.proportions, self.donors, once=self.donors > 1)


@dataclass(frozen=True)
class FoundCluster:
    """A candidate that was grown and tested."""

    growth: Growth
    topic: Alternative
    score: float
    scores: Floats  # of the bootstrap clusters
    p_value: float
    significant: bool
    only_donor: int  # the most documents that share their only donor
    searches: tuple[HeldOutSearch, ...] | None = None  # in held-out documents

    @property
    def documents(self) -> tuple[int, ...]:
        return self.growth.documents

    @property
    def support(self) -> float:
        return self.growth.support

    @property
    def calibration_support(self) -> Floats | None:
        """The support that the same search finds in held-out documents."""
        return None if self.searches is None else list_support(self.searches)

    @property
    def search_p_value(self) -> float | None:
        """How often a whole search finds as much support if there is nothing to find."""
        calibration_support = self.calibration_support
        return (
            None
            if calibration_support is None
            else estimate_p_value(self.support, calibration_support)
        )

    @property
    def deciding_p_value(self) -> float:
        """The search p-value, or the bootstrap p-value if there were no searches."""
        by_search = self.search_p_value
        return self.p_value if by_search is None else by_search
