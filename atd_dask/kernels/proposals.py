"""Proposals: sets of documents that may be a cluster."""

from __future__ import annotations

from dataclasses import dataclass

# The share of the smaller proposal's documents above which two proposals are the same.
SAME = 0.5


@dataclass(frozen=True, slots=True)
class Proposal:
    """Documents that may belong together, surest first."""

    documents: tuple[int, ...]
    support: float

    def is_like(self, other: Proposal) -> bool:
        """Return whether the two share most documents of the smaller one."""
        common = len(set(self.documents) & set(other.documents))
        return common > SAME * min(len(self.documents), len(other.documents))
