"""Proposals: documents of a batch that may be a cluster."""

from __future__ import annotations

from dataclasses import dataclass

# Of the smaller of two proposals, the share of documents above which they are the same one.
SAME = 0.5


@dataclass(frozen=True, slots=True)
class Proposal:
    """Documents that belong together, the surest first."""

    documents: tuple[int, ...]
    support: float

    def is_like(self, other: Proposal) -> bool:
        """Whether both have most of the smaller one's documents."""
        common = len(set(self.documents) & set(other.documents))
        return common > SAME * min(len(self.documents), len(other.documents))
