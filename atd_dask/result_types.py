"""The types of a result: what `result.json` holds, and what everything else is made of.

Fields have the names and the order of the JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from atd_dask.json_records import OMITTED, JsonRecord


@dataclass(frozen=True, kw_only=True)
class PartSizes(JsonRecord):
    """The size of a part of the corpus."""

    documents: int
    tokens: int
    terms: int
    copies: int | None = field(default=None, metadata=OMITTED)  # None if not looked for


@dataclass(frozen=True, kw_only=True)
class OrderFigures(JsonRecord):
    """One step of the search over the number of topics."""

    n_topics: int
    bic: float
    log_likelihood: float
    iterations: int
    topics_per_document: float
    words_per_topic: float


@dataclass(frozen=True, kw_only=True)
class ModelFigures(JsonRecord):
    """The null model that a batch was compared with."""

    n_topics: int
    bic: float
    order_search: tuple[OrderFigures, ...]
    topics_per_document: float
    salient_words_per_topic: float


@dataclass(frozen=True, kw_only=True)
class BatchDocument(JsonRecord):
    """A near-duplicate in the batch."""

    row: int
    id: str
    labels: tuple[str, ...]
    sweep: int | None = field(default=None, metadata=OMITTED)  # in which it arrived


@dataclass(frozen=True, kw_only=True)
class MemberDocument(JsonRecord):
    """A document of a cluster."""

    row: int
    id: str
    share: float  # of the document that the new topic explains
    labels: tuple[str, ...]
    copies: tuple[BatchDocument, ...] | None = field(default=None, metadata=OMITTED)
    sweep: int | None = field(default=None, metadata=OMITTED)

    @property
    def all_copies(self) -> tuple[BatchDocument, ...]:
        """Its near-duplicates."""
        return self.copies or ()


@dataclass(frozen=True, kw_only=True)
class SalientWord(JsonRecord):
    """A word with a probability of its own in the topic of a cluster."""

    word: str  # as it was counted, such as a stem
    written: str | None = field(default=None, metadata=OMITTED)  # as the documents write it
    probability: float
    shared_probability: float  # in all other topics
    occurring: bool  # in the documents of the cluster
    new: bool = False  # not in the training documents

    @property
    def is_raised(self) -> bool:
        """Whether it occurs in the cluster and is more likely there than elsewhere."""
        return self.occurring and self.probability > self.shared_probability

    @property
    def form(self) -> str:
        """The word as people write it."""
        return self.word if self.written is None else self.written


@dataclass(frozen=True, kw_only=True)
class GrowthFigures(JsonRecord):
    """A step in which a cluster grew by a document."""

    row: int
    share: float
    score: float
    bic_gain: float
    failed: bool


@dataclass(frozen=True)
class Agreement(JsonRecord):
    """How well a list of documents matches the true ones."""

    recall: float
    precision: float
    f1: float
    auc: float


@dataclass(frozen=True, kw_only=True)
class ClusterEvaluation(JsonRecord):
    """A cluster compared with the documents of its majority label: those of the whole batch, and
    those that earlier clusters left over."""

    label: str
    recall: float
    precision: float
    f1: float
    auc: float
    of_remaining: Agreement


@dataclass(frozen=True, kw_only=True)
class MeanAgreement(JsonRecord):
    """The agreement over several clusters."""

    f1: float
    auc: float


@dataclass(frozen=True, kw_only=True)
class Evaluation(JsonRecord):
    """How well the significant clusters match the labels."""

    group: MeanAgreement  # mean over the clusters
    group_of_remaining: MeanAgreement  # the same, against what earlier clusters left
    individual: MeanAgreement  # their documents taken together


@dataclass(frozen=True, kw_only=True)
class ClusterRepeats(JsonRecord):
    """In which repeats, with other null models, a cluster was found."""

    found: int  # number of repeats that found it
    of: int
    p_value: float  # over all repeats; decides
    p_values: tuple[float | None, ...]  # one per repeat, None if it has no such cluster
    shown: int  # the repeat whose documents and words these are, from 1


@dataclass(frozen=True, kw_only=True)
class ClusterResult(JsonRecord):
    """A cluster, or a candidate that is not significant."""

    index: int
    significant: bool
    support: float | None = None
    search_p_value: float | None = None
    p_value: float
    replicates: int
    size: int
    score: float
    bic_gain: float
    n_salient: int
    n_salient_occurring: int
    documents: tuple[MemberDocument, ...]
    salient_words: tuple[SalientWord, ...]
    growth: tuple[GrowthFigures, ...]
    bootstrap_scores: tuple[float, ...]
    reference_support: tuple[float, ...] | None = None  # of the searches in held-out documents
    n_copies: int | None = field(default=None, metadata=OMITTED)
    evaluation: ClusterEvaluation | None = field(default=None, metadata=OMITTED)
    repeats: ClusterRepeats | None = field(default=None, metadata=OMITTED)
    # In a sweep: its number among known clusters; new, continuing, dismissed or drift (which has no
    # number).
    cluster: int | None = field(default=None, metadata=OMITTED)
    kind: str | None = field(default=None, metadata=OMITTED)

    @property
    def deciding_p_value(self) -> float:
        """The search p-value, or the bootstrap p-value if there is none."""
        return self.p_value if self.search_p_value is None else self.search_p_value

    @property
    def rows(self) -> tuple[int, ...]:
        """The rows of its documents."""
        return tuple(document.row for document in self.documents)

    @property
    def rows_with_copies(self) -> list[int]:
        """The rows of its documents, each followed by those of its near-duplicates."""
        rows = []
        for member in self.documents:
            rows += [member.row, *(copy.row for copy in member.all_copies)]
        return rows

    @property
    def raised_words(self) -> list[SalientWord]:
        """The words that its topic makes more likely, most telling first."""
        return [word for word in self.salient_words if word.is_raised]


@dataclass(frozen=True, kw_only=True)
class NormalDocument(JsonRecord):
    """A document of training or validation."""

    part: str
    row: int
    id: str


@dataclass(frozen=True, kw_only=True)
class ReferenceSearch(JsonRecord):
    """What a search in held-out documents found."""

    support: float
    size: int | None
    words: tuple[str, ...]
    documents: tuple[NormalDocument, ...]


@dataclass(frozen=True, kw_only=True)
class CopyGroup(JsonRecord):
    """Near-duplicates in the batch, without a match in training."""

    size: int
    cluster: int | None  # the significant cluster that they belong to
    words: tuple[str, ...]
    documents: tuple[BatchDocument, ...]
    written: tuple[str, ...] | None = field(default=None, metadata=OMITTED)  # see SalientWord

    @property
    def forms(self) -> tuple[str, ...]:
        """The words as people write them."""
        return self.words if self.written is None else self.written


@dataclass(frozen=True, kw_only=True)
class RepeatFigures(JsonRecord):
    """The null model of a repeat, and how many clusters it found."""

    repeat: int
    seed: int
    n_topics: int
    bic: float
    clusters: int


@dataclass(frozen=True, kw_only=True)
class ResultRepeats(JsonRecord):
    """The repeats that a result combines."""

    n: int
    majority: int
    null_models: tuple[RepeatFigures, ...]


@dataclass(frozen=True, kw_only=True)
class SweptDocument(JsonRecord):
    """A document, and the sweep in which it arrived."""

    id: str
    sweep: int


@dataclass(frozen=True, kw_only=True)
class ClusterNews(JsonRecord):
    """A cluster that has new documents in a sweep."""

    cluster: int
    kind: str  # new or continuing
    size: int
    p_value: float
    words: tuple[str, ...]
    written: tuple[str, ...] | None = field(default=None, metadata=OMITTED)
    documents: tuple[SweptDocument, ...]

    @property
    def forms(self) -> tuple[str, ...]:
        """The words as people write them."""
        return self.words if self.written is None else self.written


@dataclass(frozen=True, kw_only=True)
class SweepFigures(JsonRecord):
    """The sweep that a result belongs to."""

    number: int
    sweeps: tuple[int, ...]  # whose documents were tested
    generation: int  # of the null model
    known_topics: int
    clusters: tuple[ClusterNews, ...]


@dataclass(frozen=True, kw_only=True)
class Result(JsonRecord):
    """The result of a detection: the clusters, followed by the candidates that failed."""

    format: str
    name: str
    seed: int
    corpus: Mapping[str, PartSizes]  # by the name of the part
    null_model: ModelFigures
    clusters: tuple[ClusterResult, ...]
    references: tuple[ReferenceSearch, ...] | None = field(default=None, metadata=OMITTED)
    copies: tuple[CopyGroup, ...] | None = field(default=None, metadata=OMITTED)
    evaluation: Evaluation | None = field(default=None, metadata=OMITTED)
    repeats: ResultRepeats | None = field(default=None, metadata=OMITTED)
    sweep: SweepFigures | None = field(default=None, metadata=OMITTED)

    @property
    def significant(self) -> tuple[ClusterResult, ...]:
        """The significant clusters."""
        return tuple(cluster for cluster in self.clusters if cluster.significant)

    @property
    def copy_groups(self) -> tuple[CopyGroup, ...]:
        """The groups of near-duplicates."""
        return self.copies or ()


@dataclass(frozen=True, kw_only=True)
class LineCluster(JsonRecord):
    """A cluster with new documents, in a line of the history."""

    cluster: int
    kind: str  # new or continuing
    size: int
    p_value: float
    added: int  # new documents
    words: tuple[str, ...]
    written: tuple[str, ...] | None = field(default=None, metadata=OMITTED)

    @property
    def forms(self) -> tuple[str, ...]:
        """The words as people write them."""
        return self.words if self.written is None else self.written


@dataclass(frozen=True, kw_only=True)
class LineCandidate(JsonRecord):
    """A candidate that was tested, in a line of the history."""

    size: int
    support: float | None = None
    search_p_value: float | None = None
    p_value: float
    significant: bool
    drift: bool | None = field(default=None, metadata=OMITTED)  # significant, but no alarm

    @property
    def deciding_p_value(self) -> float:
        """The search p-value, or the bootstrap p-value if there is none."""
        return self.p_value if self.search_p_value is None else self.search_p_value


@dataclass(frozen=True, kw_only=True)
class LineDrift(JsonRecord):
    """Words that documents of a normal topic take up bit by bit, in the line of a sweep."""

    words: tuple[str, ...]
    written: tuple[str, ...]
    size: int  # documents of the candidate
    p_value: float
    first: int  # the first sweep of the trend, or its first day since 1970
    counts: tuple[int, ...]  # documents with the words, sweep by sweep or day by day
    documents: tuple[int, ...]  # all of each of these sweeps or days
    by_day: bool = False  # where documents have dates
    evidence: float  # log odds of growth against a burst


@dataclass(frozen=True, kw_only=True)
class SweepLine(JsonRecord):
    """A line of the history: one sweep."""

    sweep: int
    started: str
    documents: int  # new ones
    skipped: int
    tested: int
    generation: int  # of the null model
    trained: str | None  # why the null model was trained in this sweep
    unseen_share: float
    log_likelihood: float | None
    clusters: tuple[LineCluster, ...]
    candidates: tuple[LineCandidate, ...]
    level: float | None = field(default=None, metadata=OMITTED)  # at which it was tested
    # The expected number of false alarms, at most, since the user last changed how many to accept.
    chance_alarms: float | None = field(default=None, metadata=OMITTED)
    drifts: tuple[LineDrift, ...] = ()
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Alert(JsonRecord):
    """The alert of a sweep."""

    format: str
    name: str
    sweep: int
    result: str  # where it is
    report: str
    clusters: tuple[ClusterNews, ...]


@dataclass(frozen=True, kw_only=True)
class BatchScores(JsonRecord):
    """The scores of a batch, `scores.json`: columns with an entry per document, or None."""

    format: str
    result: str  # SHA-256 of the result they belong to
    usual: tuple[float | None, ...]  # quantiles of the surprise of normal documents
    row: tuple[int, ...]
    surprise: tuple[float | None, ...]
    novelty: tuple[float | None, ...]
    nearest: tuple[int | None, ...]  # the index of the nearest cluster
    log_odds: tuple[float | None, ...]  # that it belongs to it
