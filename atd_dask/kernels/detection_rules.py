"""What a detection is told, and what it gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from atd_dask.kernels.alternative import Alternative, NullContext
from atd_dask.kernels.bootstrap import Pool
from atd_dask.kernels.calibration import HeldOutSearch, estimate_p_value
from atd_dask.kernels.cluster_growth import Growth, SettleRule, StopRule
from atd_dask.kernels.fitters import AuthorsFitter, Fitter
from atd_dask.kernels.fitting import Fit
from atd_dask.kernels.model import Block, Floats, WordTable


@dataclass(frozen=True)
class DetectionRules:
    """Where candidates start, who belongs to them, which documents are donors, how a cluster is
    judged."""

    seeds: int
    stop: StopRule  # of growth, where candidates are grown to their end
    settle: bool  # from many starts, in place of growth to its end
    settling: SettleRule
    pool: str  # validation, validation+batch or train
    donors: int  # the nearest documents from which one is drawn; 1 for the paper's rule
    replicates: int
    level: float
    searches: int  # in held-out documents, whose support a cluster must surpass
    failures: int  # so many candidates in a row that are not significant end the search
    remember: bool  # the topics of clusters that were found count as known from then on
    unseen: bool  # words that training lacks get a probability
    max_clusters: int | None = None
    max_size: int | None = None
    lda: bool = False  # LDA in place of the parsimonious model
    authors: bool = False  # the authors' programs in place of the paper's equations

    @property
    def home(self) -> str:
        """The corpus from which donors are drawn."""
        return "train" if self.pool == "train" else "validation"

    @property
    def most_above(self) -> int:
        """So many replicates may score more than a cluster that is significant."""
        return int(np.floor(self.level * (self.replicates + 1) + 1e-9)) - 1

    def fitter(self, table: WordTable) -> Fitter:
        kind = AuthorsFitter if self.authors else Fitter
        return kind(NullContext.of(table, self.lda))

    def make_pool(self, fitter: Fitter, block: Block, fit: Fit) -> Pool:
        return Pool.of(fitter, block, fit.proportions, self.donors, once=self.donors > 1)


@dataclass(frozen=True)
class FoundCluster:
    """A candidate that was grown to its end and tested."""

    growth: Growth
    topic: Alternative
    score: float
    scores: Floats  # of the bootstrap clusters
    p_value: float
    significant: bool
    only_donor: int  # so many documents have one and the same document as their only donor
    searches: tuple[HeldOutSearch, ...] | None = None  # the same search where there is nothing

    @property
    def documents(self) -> tuple[int, ...]:
        return self.growth.documents

    @property
    def support(self) -> float:
        return self.growth.support

    @property
    def calibration_support(self) -> Floats | None:
        """The support that the same search finds where there is nothing to find."""
        if self.searches is None:
            return None
        return np.array([search.support for search in self.searches])

    @property
    def search_p_value(self) -> float | None:
        """How often a whole search finds as much support where there is nothing to find."""
        calibration_support = self.calibration_support
        return (
            None
            if calibration_support is None
            else estimate_p_value(self.support, calibration_support)
        )

    @property
    def deciding_p_value(self) -> float:
        """That of the searches, where there are any, otherwise that of the bootstrap."""
        by_search = self.search_p_value
        return self.p_value if by_search is None else by_search
