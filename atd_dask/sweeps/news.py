"""What a sweep found: clusters with new documents, and where all documents came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from atd_dask.result_types import (
    BatchDocument,
    ClusterNews,
    LineDrift,
    MemberDocument,
    Result,
    SweptDocument,
)
from atd_dask.sweeps.assembly import Assembly
from atd_dask.sweeps.state import Drift, KnownCluster, SweepState


@dataclass
class News:
    """A cluster with new documents in a sweep."""

    cluster: KnownCluster  # with them
    kind: str  # new or continuing
    documents: list[SweptDocument] = field(default_factory=list)
    parts: list[Assembly] = field(default_factory=list)

    def describe(self) -> ClusterNews:
        """Return it as a result has it."""
        return ClusterNews(
            cluster=self.cluster.number,
            kind=self.kind,
            size=len(self.cluster.documents),
            p_value=self.cluster.p_value,
            words=self.cluster.words,
            written=self.cluster.written,
            documents=tuple(self.documents),
        )


@dataclass(frozen=True)
class SweepFindings:
    """What a sweep found; the state is that after it, except for its number."""

    result: Result
    news: tuple[ClusterNews, ...]
    n_tested: int
    drift: Drift
    drifts: tuple[LineDrift, ...]
    level: float | None  # None if nothing could be tested
    state: SweepState


def name_sweeps(result: Result, origins: Sequence[int]) -> Result:
    """Add to every document of a result the sweep in which it arrived; `origins` has that of each
    row."""

    def name_copy(copy: BatchDocument) -> BatchDocument:
        return replace(copy, sweep=origins[copy.row])

    def name_member(member: MemberDocument) -> MemberDocument:
        copies = member.copies and tuple(map(name_copy, member.copies))
        return replace(member, copies=copies, sweep=origins[member.row])

    clusters = tuple(
        replace(cluster, documents=tuple(map(name_member, cluster.documents)))
        for cluster in result.clusters
    )
    copies = result.copies and tuple(
        replace(group, documents=tuple(map(name_copy, group.documents))) for group in result.copies
    )
    return replace(result, clusters=clusters, copies=copies)
