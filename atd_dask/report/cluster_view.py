"""The view of a cluster, and of a group of near-duplicates: what the page shows of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from atd_dask.report import charts
from atd_dask.report.cluster_times import Bins, draw_times
from atd_dask.report.numbers import (
    count,
    show_decimal,
    show_p_value,
    show_probability,
    show_ratio,
)
from atd_dask.report.sentences import (
    say_found,
    say_growth,
    say_p_value,
    say_reason,
    say_repeats,
    say_searches,
    say_why,
)
from atd_dask.report.sources import MOST_COPIES, MOST_DOCUMENTS, MOST_WORDS, Sources
from atd_dask.result_types import (
    BatchDocument,
    ClusterResult,
    CopyGroup,
    MemberDocument,
    SalientWord,
)
from atd_dask.text.passages import Passage, mark_words
from atd_dask.wording import clean, shorten

SUMMARY_WORDS, SUMMARY_LETTERS = 8, 30


DOCUMENT_WORDS = 12


METRICS = ("recall", "precision", "f1", "auc")


@dataclass(frozen=True)
class Word:
    """A salient word of a cluster."""

    text: str
    probability: str
    shared: str
    ratio: str
    order: tuple[float, float, float]  # the sort keys of the three columns
    bar: Markup
    new: bool  # not in the training documents


@dataclass(frozen=True)
class WordList:
    """Salient words of one kind, in the order of the result; possibly not all."""

    words: tuple[Word, ...]
    total: int
    scale: Markup


@dataclass(frozen=True)
class Copy:
    """A near-duplicate of a document."""

    row: int
    id: str
    link: str | None


@dataclass(frozen=True)
class CopiesView:
    """A group of near-duplicates without a match in training."""

    size: int
    cluster: int | None  # the significant cluster it belongs to
    words: tuple[str, ...]
    passage: Passage | None  # the text of the first, if kept
    documents: tuple[Copy, ...]  # perhaps not all


@dataclass(frozen=True)
class DocumentRow:
    """A document of a cluster."""

    place: int
    row: int
    id: str
    link: str | None
    share: float
    bar: Markup
    labels: tuple[str, ...]
    words: tuple[tuple[str, int], ...]  # those that the new topic makes more likely
    more_words: int
    passage: Passage | None  # its text, if kept
    copies: tuple[Copy, ...]  # perhaps not all
    n_copies: int


@dataclass(frozen=True)
class ClusterView:
    """One cluster."""

    index: int
    significant: bool
    size: int
    documents_text: str
    support: str
    search_p_value: str
    p_value: str
    about: tuple[str, ...]
    p_sentence: str
    in_repeats: str  # in how many repeats it was found, if any
    repeats_sentence: str
    reason: str
    histogram: Markup | None
    search_sentence: str
    searches: Markup | None
    why: str
    times: Markup | None  # its documents over time, where they have dates
    growth_sentence: str
    growth: Markup | None  # if it grew step by step
    occurring: WordList
    absent: WordList
    documents: tuple[DocumentRow, ...]
    has_labels: bool
    has_texts: bool
    metrics: tuple[str, ...] | None  # of METRICS, after the label
    label: str


def view_cluster(
    cluster: ClusterResult,
    sources: Sources,
    level: float | None,
    forms: Mapping[str, str],
    bins: Bins | None,
) -> ClusterView:
    words, steps, documents = cluster.salient_words, cluster.growth, cluster.documents
    raised = [word.word for word in cluster.raised_words]
    kinds = {word.word: "more" if word.is_raised else "less" for word in words}
    support, others = cluster.support, cluster.reference_support
    found = cluster.evaluation
    return ClusterView(
        index=cluster.index,
        significant=cluster.significant and cluster.kind != "drift",
        size=cluster.size,
        documents_text=count(cluster.size, "document") + _say_copies(cluster),
        support="–" if support is None else show_decimal(support),
        search_p_value="–"
        if cluster.search_p_value is None
        else show_p_value(cluster.search_p_value),
        p_value=show_p_value(cluster.p_value),
        about=tuple(
            shorten(forms.get(word, word), SUMMARY_LETTERS) for word in raised[:SUMMARY_WORDS]
        ),
        p_sentence=say_p_value(cluster),
        in_repeats=say_found(cluster),
        repeats_sentence=say_repeats(cluster),
        reason=say_reason(cluster, level),
        histogram=charts.draw_histogram(cluster.bootstrap_scores, cluster.score)
        if cluster.bootstrap_scores
        else None,
        search_sentence=say_searches(cluster),
        searches=charts.draw_searches(others, support) if others and support is not None else None,
        why=say_why(cluster, level, _find_heaviest(cluster, sources)),
        times=None
        if bins is None or sources.dates is None
        else draw_times(bins, bins.count(sources.dates[cluster.rows_with_copies])),
        growth_sentence=say_growth(cluster) if steps else "",
        growth=charts.draw_growth(
            [step.score for step in steps],
            [step.share for step in steps],
            [step.failed for step in steps],
        )
        if steps
        else None,
        occurring=_view_words([word for word in words if word.occurring], forms),
        absent=_view_words(
            # All have the same probability here, so the most common ones tell most.
            sorted(
                (word for word in words if not word.occurring),
                key=lambda word: -word.shared_probability,
            ),
            forms,
        ),
        documents=tuple(
            _view_document(place, document, sources, raised, kinds)
            for place, document in enumerate(documents[:MOST_DOCUMENTS], 1)
        ),
        has_labels=any(document.labels for document in documents),
        has_texts=any(row in sources.texts for row in cluster.rows),
        metrics=tuple(f"{getattr(found, name):.2f}" for name in METRICS) if found else None,
        label=clean(found.label) if found else "",
    )


def _find_heaviest(cluster: ClusterResult, sources: Sources) -> tuple[str, float] | None:
    """The document with most of the words that the topic raises, and its share of them."""
    raised = [word.word for word in cluster.raised_words]
    tokens = [
        (sum(sources.counts.get(document.row, {}).get(word, 0) for word in raised), document.id)
        for document in cluster.documents[:MOST_DOCUMENTS]
    ]
    total = sum(number for number, _ in tokens)
    if not total:
        return None
    number, id = max(tokens, key=lambda one: one[0])
    return shorten(id, SUMMARY_LETTERS), number / total


def _view_words(words: Sequence[SalientWord], forms: Mapping[str, str]) -> WordList:
    shown = words[:MOST_WORDS]
    decades = charts.Decades.of(
        [value for word in shown for value in (word.probability, word.shared_probability)]
    )
    return WordList(
        tuple(_view_word(word, decades, forms) for word in shown),
        len(words),
        decades.draw_scale(),
    )


def _view_word(word: SalientWord, decades: charts.Decades, forms: Mapping[str, str]) -> Word:
    own, shared = word.probability, word.shared_probability
    ratio = math.log(own / shared) if own > 0 and shared > 0 else 0.0
    return Word(
        clean(forms.get(word.word, word.word)),
        show_probability(own),
        show_probability(shared),
        show_ratio(own, shared),
        (own, shared, round(ratio, 4)),
        decades.draw_bar(own, shared),
        word.new,
    )


def _view_document(
    place: int,
    document: MemberDocument,
    sources: Sources,
    raised: Sequence[str],
    kinds: Mapping[str, str],
) -> DocumentRow:
    counts = sources.counts.get(document.row, {})
    # Most frequent first; ties in the order of the cluster's words.
    words = sorted((word for word in raised if word in counts), key=lambda word: -counts[word])
    return DocumentRow(
        place,
        document.row,
        clean(document.id),
        sources.links.get(document.row),
        document.share,
        charts.draw_share(document.share),
        tuple(map(clean, document.labels)),
        tuple((clean(word), counts[word]) for word in words[:DOCUMENT_WORDS]),
        max(len(words) - DOCUMENT_WORDS, 0),
        _view_text(sources, document.row, kinds),
        tuple(_view_copy(copy, sources) for copy in document.all_copies[:MOST_COPIES]),
        len(document.all_copies),
    )


def _say_copies(cluster: ClusterResult) -> str:
    return f" and {count(cluster.n_copies, 'near-duplicate')}" if cluster.n_copies else ""


def _view_copy(copy: BatchDocument, sources: Sources) -> Copy:
    return Copy(copy.row, clean(copy.id), sources.links.get(copy.row))


def view_copies(group: CopyGroup, sources: Sources, forms: Mapping[str, str]) -> CopiesView:
    documents = group.documents
    passage = _view_text(sources, documents[0].row, {})
    return CopiesView(
        size=group.size,
        cluster=group.cluster,
        words=tuple(shorten(forms.get(word, word), SUMMARY_LETTERS) for word in group.words),
        passage=passage and replace(passage, note=""),  # the note mentions a topic
        documents=tuple(_view_copy(document, sources) for document in documents[:MOST_COPIES]),
    )


def _view_text(sources: Sources, row: int, kinds: Mapping[str, str]) -> Passage | None:
    text = sources.texts.get(row)
    if text is None or sources.tokeniser is None:
        return None
    return mark_words(text, sources.tokeniser.locate(text), kinds)
