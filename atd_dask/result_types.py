"""The types of a result: what `result.json` holds, and what everything else is made from.

Fields have the names of the JSON, and stand in its order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from types import UnionType
from typing import Any, Self, get_args, get_origin, get_type_hints

from atd_dask.errors import InputError

OMITTED = {"omitted": True}  # left out of the JSON where it is None


@dataclass(frozen=True)
class JsonRecord:
    """A record with a form for JSON, from which it can be read back."""

    def to_json(self) -> dict[str, Any]:
        """Plain values, in the order of the fields."""
        values = ((item, getattr(self, item.name)) for item in fields(self))
        return {
            item.name: _encode(value)
            for item, value in values
            if value is not None or item.metadata != OMITTED
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """The record that `to_json` wrote; unknown keys are ignored.

        Raises
        ------
        InputError
            If a field that has no default is missing.
        """
        decoders, needed = _find_decoders(cls)  # type: ignore[arg-type]  # a class can be hashed
        if missing := [name for name in needed if name not in told]:
            raise InputError(f"{cls.__name__} must have {missing[0]}, but the JSON lacks it")
        return cls(**{name: read(told[name]) for name, read in decoders.items() if name in told})


def _encode(value: Any) -> Any:
    if isinstance(value, JsonRecord):
        return value.to_json()
    if isinstance(value, tuple):
        return [_encode(one) for one in value]
    if isinstance(value, Mapping):
        return {key: _encode(one) for key, one in value.items()}
    return value


@cache
def _find_decoders(cls: type[Any]) -> tuple[dict[str, Callable[[Any], Any]], list[str]]:
    """How each field is read, and the fields that have no default."""
    hints = get_type_hints(cls)
    decoders = {item.name: _make_decoder(hints[item.name]) for item in fields(cls)}
    return decoders, [item.name for item in fields(cls) if item.default is MISSING]


def _make_decoder(hint: Any) -> Callable[[Any], Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is UnionType:
        (inner,) = (_make_decoder(one) for one in arguments if one is not type(None))
        return lambda value: None if value is None else inner(value)
    if origin is tuple:
        read = _make_decoder(arguments[0])
        return lambda value: tuple(map(read, value))
    if origin is Mapping:
        read = _make_decoder(arguments[1])
        return lambda value: {key: read(one) for key, one in value.items()}
    if isinstance(hint, type) and issubclass(hint, JsonRecord):
        return hint.from_json
    return lambda value: value


@dataclass(frozen=True, kw_only=True)
class PartSizes(JsonRecord):
    """How large a part of the corpus is."""

    documents: int
    tokens: int
    terms: int
    copies: int | None = field(default=None, metadata=OMITTED)  # where they were looked for


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
    """A near-copy in the batch."""

    row: int
    id: str
    labels: tuple[str, ...]
    sweep: int | None = field(default=None, metadata=OMITTED)  # that it came in


@dataclass(frozen=True, kw_only=True)
class MemberDocument(JsonRecord):
    """A document of a cluster."""

    row: int
    id: str
    share: float  # of it that the new topic explains
    labels: tuple[str, ...]
    copies: tuple[BatchDocument, ...] | None = field(default=None, metadata=OMITTED)
    sweep: int | None = field(default=None, metadata=OMITTED)

    @property
    def all_copies(self) -> tuple[BatchDocument, ...]:
        """Its near-copies, none where it has none."""
        return self.copies or ()


@dataclass(frozen=True, kw_only=True)
class SalientWord(JsonRecord):
    """A word with a probability of its own in the topic of a cluster."""

    word: str  # as it was counted, such as a stem
    written: str | None = field(default=None, metadata=OMITTED)  # as the documents write it
    probability: float
    shared_probability: float  # elsewhere
    occurring: bool  # in the documents of the cluster
    new: bool = False  # training lacks it

    @property
    def is_raised(self) -> bool:
        """Whether it is more likely in the cluster than elsewhere, and occurs."""
        return self.occurring and self.probability > self.shared_probability

    @property
    def form(self) -> str:
        """How people write it."""
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
    """How well a list of documents agrees with the true ones."""

    recall: float
    precision: float
    f1: float
    auc: float


@dataclass(frozen=True, kw_only=True)
class ClusterEvaluation(JsonRecord):
    """A cluster against its majority label: of the whole batch, and of what earlier clusters had
    left of it."""

    label: str
    recall: float
    precision: float
    f1: float
    auc: float
    of_remaining: Agreement


@dataclass(frozen=True, kw_only=True)
class MeanAgreement(JsonRecord):
    """Two figures of agreement, over several clusters."""

    f1: float
    auc: float


@dataclass(frozen=True, kw_only=True)
class Evaluation(JsonRecord):
    """How well the significant clusters agree with the labels."""

    group: MeanAgreement  # mean over the clusters
    group_of_remaining: MeanAgreement  # the same, against what earlier ones had left
    individual: MeanAgreement  # their documents taken together


@dataclass(frozen=True, kw_only=True)
class ClusterRepeats(JsonRecord):
    """What repeats with other null models say of a cluster."""

    found: int  # in so many repeats
    of: int
    p_value: float  # over all repeats, which decides
    p_values: tuple[float | None, ...]  # of each, None where nothing speaks for the cluster
    shown: int  # the repeat whose documents and words are shown, from 1


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
    # In a sweep: its number among known clusters, and whether it is new, continuing, dismissed or
    # drift, which has no number.
    cluster: int | None = field(default=None, metadata=OMITTED)
    kind: str | None = field(default=None, metadata=OMITTED)

    @property
    def deciding_p_value(self) -> float:
        """That of the searches, where there are any."""
        return self.p_value if self.search_p_value is None else self.search_p_value

    @property
    def rows(self) -> tuple[int, ...]:
        """The rows of its documents."""
        return tuple(document.row for document in self.documents)

    @property
    def rows_with_copies(self) -> list[int]:
        """The rows of its documents, each followed by those of its copies."""
        rows = []
        for member in self.documents:
            rows += [member.row, *(copy.row for copy in member.all_copies)]
        return rows

    @property
    def raised_words(self) -> list[SalientWord]:
        """The words that its topic makes more likely, the most telling first."""
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
    """Near-copies in the batch that training has no counterpart of."""

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
    """The repeats that a result was combined from."""

    n: int
    majority: int
    null_models: tuple[RepeatFigures, ...]


@dataclass(frozen=True, kw_only=True)
class SweptDocument(JsonRecord):
    """A document, and the sweep that it came in."""

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
    """What a detection found: the clusters, and after them the candidates that failed."""

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
        """The groups of near-copies, none where there are none."""
        return self.copies or ()


@dataclass(frozen=True, kw_only=True)
class LineCluster(JsonRecord):
    """A cluster that had new documents, in the line of a sweep."""

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
    """A candidate that was tested, in the line of a sweep."""

    size: int
    support: float | None = None
    search_p_value: float | None = None
    p_value: float
    significant: bool
    drift: bool | None = field(default=None, metadata=OMITTED)  # significant, but no alarm

    @property
    def deciding_p_value(self) -> float:
        """That of the searches, where there are any."""
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
    """A sweep in the history."""

    sweep: int
    started: str
    documents: int  # new ones
    skipped: int
    tested: int
    generation: int  # of the null model
    trained: str | None  # why the null model was trained for it
    unseen_share: float
    log_likelihood: float | None
    clusters: tuple[LineCluster, ...]
    candidates: tuple[LineCandidate, ...]
    level: float | None = field(default=None, metadata=OMITTED)  # at which it was tested
    # The false alarms to expect at most, of all sweeps since they were asked for.
    chance_alarms: float | None = field(default=None, metadata=OMITTED)
    drifts: tuple[LineDrift, ...] = ()
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Alert(JsonRecord):
    """What a sweep has to tell."""

    format: str
    name: str
    sweep: int
    result: str  # where it is
    report: str
    clusters: tuple[ClusterNews, ...]


@dataclass(frozen=True, kw_only=True)
class BatchScores(JsonRecord):
    """The scores of the documents of a batch, `scores.json`: columns with an entry for each
    document that was searched, None where a figure is missing."""

    format: str
    result: str  # the SHA-256 of the result that they belong to
    usual: tuple[float | None, ...]  # quantiles of the surprise of normal documents
    row: tuple[int, ...]
    surprise: tuple[float | None, ...]
    novelty: tuple[float | None, ...]
    nearest: tuple[int | None, ...]  # the index of the nearest cluster
    log_odds: tuple[float | None, ...]  # that it belongs to it
