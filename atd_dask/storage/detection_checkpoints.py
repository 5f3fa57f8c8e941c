"""Checkpoints of a detection: candidates, bootstrap scores and held-out searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from atd_dask.kernels.calibration import HeldOutSearch
from atd_dask.kernels.cluster_growth import Growth, Step
from atd_dask.kernels.model import Floats
from atd_dask.kernels.proposals import Proposal
from atd_dask.storage.checkpoints import Checkpoints


@dataclass(frozen=True)
class DetectionCheckpointer:
    """Saves, for each cluster, the proposals it is chosen from, the candidate once it has grown,
    and its bootstrap scores batch by batch; for all clusters, what held-out searches found."""

    checkpoints: Checkpoints

    def load_growth(self, index: int) -> Growth | None:
        kept = self.checkpoints.load(f"growth-{index}")
        if kept is None:
            return None
        facts, _ = kept
        steps = tuple(Step(**step) for step in facts.pop("steps"))
        documents = tuple(facts.pop("documents"))
        around = tuple(facts.pop("around", ()))
        return Growth(**facts, steps=steps, documents=documents, around=around)

    def save_growth(self, index: int, growth: Growth) -> None:
        self.checkpoints.save(f"growth-{index}", asdict(growth), {})

    def load_proposals(self, index: int) -> list[Proposal] | None:
        kept = self.checkpoints.load(f"proposals-{index}")
        if kept is None:
            return None
        facts, _ = kept
        return [Proposal(tuple(one["documents"]), one["support"]) for one in facts["proposals"]]

    def save_proposals(self, index: int, proposals: Sequence[Proposal]) -> None:
        facts = {"proposals": [asdict(proposal) for proposal in proposals]}
        self.checkpoints.save(f"proposals-{index}", facts, {})

    def load_calibration(self) -> list[HeldOutSearch]:
        kept = self.checkpoints.load("chance")
        if kept is None:
            return []
        facts, arrays = kept
        support = arrays["support"].tolist()
        if "found" not in facts:  # an earlier version saved only the support
            return [HeldOutSearch(one, size=None) for one in support]
        return [
            HeldOutSearch(one, found["size"], tuple(found["documents"]), tuple(found["words"]))
            for one, found in zip(support, facts["found"], strict=True)
        ]

    def save_calibration(self, searches: Sequence[HeldOutSearch]) -> None:
        found = [
            {"size": one.size, "documents": one.documents, "words": one.words} for one in searches
        ]
        support = np.array([one.support for one in searches])
        self.checkpoints.save("chance", {"found": found}, {"support": support})

    def load_scores(self, index: int) -> Floats:
        kept = self.checkpoints.load(f"scores-{index}")
        return np.zeros(0) if kept is None else kept[1]["scores"]

    def save_scores(self, index: int, scores: Floats) -> None:
        self.checkpoints.save(f"scores-{index}", {}, {"scores": scores})


@dataclass(frozen=True)
class SweepCheckpointer(DetectionCheckpointer):
    """Saves held-out searches where other batches with the same null model find them."""

    searches: Checkpoints

    def load_calibration(self) -> list[HeldOutSearch]:
        return DetectionCheckpointer(self.searches).load_calibration()

    def save_calibration(self, searches: Sequence[HeldOutSearch]) -> None:
        DetectionCheckpointer(self.searches).save_calibration(searches)
