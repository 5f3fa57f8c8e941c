"""The sentences of a page, made from the numbers of a result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from atd_dask.report.numbers import (
    count,
    show_decimal,
    show_p_value,
    spell,
)
from atd_dask.result_types import ClusterResult

NAMED_CLUSTERS = 3
NAMED_WORDS = 4
CONFIRMING = 0.1  # of a document, the share of the topic that confirms it
DOMINATING = 0.5  # of the words that set a cluster apart, more than this in one document


@dataclass(frozen=True)
class Phrase:
    """A piece of a sentence; the words of a cluster stand out."""

    text: str
    stands_out: bool = False


def say_verdict(
    n_documents: int,
    found: Sequence[tuple[int, Sequence[str]]],
    candidate: int | None,
    searched: bool,
    in_repeats: str = "",
) -> tuple[Phrase, ...]:
    """Say what was found in one sentence.

    `found` has the size and the words of each significant cluster, `candidate` the size of the best
    candidate that is not significant, and `in_repeats` in how many repeats that one was found.
    """
    where = f"in {count(n_documents, 'document')}"
    if not found:
        rest = "there was no candidate to test"
        if candidate is not None:
            failed = (
                "has no more support than expected by chance" if searched else "failed the test"
            )
            if in_repeats:
                failed = (
                    f"was found in {in_repeats} repeats, but is not significant over all of them"
                )
            rest = f"the best candidate, {count(candidate, 'document')}, {failed}"
        return (Phrase(f"No significant cluster was found {where}; {rest}."),)
    number = spell(len(found)).capitalize()
    verb = "cluster was" if len(found) == 1 else "clusters were"
    phrases = [Phrase(f"{number} significant {verb} found {where}: ")]
    named = found[:NAMED_CLUSTERS]
    more = found[NAMED_CLUSTERS:]
    for index, (size, words) in enumerate(named):
        if index:
            phrases.append(Phrase(", and " if index == len(named) - 1 and not more else ", "))
        if words:
            phrases.append(Phrase(f"{count(size, 'document')} about "))
            phrases += _list_words(words[:NAMED_WORDS])
        else:
            phrases.append(Phrase(f"{count(size, 'document')} that lack usual words"))
    if more:
        documents = count(sum(size for size, _ in more), "document")
        phrases.append(Phrase(f", and {documents} in {len(more)} more"))
    phrases.append(Phrase("."))
    return tuple(phrases)


def _list_words(words: Sequence[str]) -> Iterator[Phrase]:
    """Join words as in `a, b and c`, each a phrase of its own, as it may run right to left."""
    for index, word in enumerate(words):
        if index:
            yield Phrase(" and " if index == len(words) - 1 else ", ")
        yield Phrase(word, stands_out=True)


def say_p_value(cluster: ClusterResult) -> str:
    """Say how the cluster compares with its bootstrap clusters."""
    scores = cluster.bootstrap_scores
    if not scores:
        return (
            "No bootstrap cluster could be drawn, because too few normal documents are similar, so"
            " the p-value is set to 1."
        )
    above = sum(score > cluster.score for score in scores)
    p_value = f"p = {show_p_value(cluster.p_value)}".replace(" ", "\N{NO-BREAK SPACE}")
    if above:
        return f"{above:,} of {count(len(scores), 'bootstrap cluster')} scored higher: {p_value}."
    return (
        f"None of {count(len(scores), 'bootstrap cluster')} scored higher: {p_value}, the smallest"
        " possible value for this number."
    )


def say_searches(cluster: ClusterResult) -> str:
    """Say how the support of the cluster compares with that found in held-out documents."""
    others, support = cluster.reference_support, cluster.support
    if others is None or support is None:
        return (
            "No searches in held-out normal documents were run, so nothing corrects for having"
            " picked this cluster among many."
        )
    reaching = sum(other >= support for other in others)
    p_value = f"search p-value {show_p_value(cluster.deciding_p_value)}"
    start = (
        f"The same search, run {count(len(others), 'time')} in held-out normal documents, found a"
        f" support of at most {show_decimal(max(others))}; this cluster has {show_decimal(support)}"
    )
    if reaching:
        return f"{start}, which {reaching} of the {len(others)} searches reached ({p_value})."
    return f"{start}, more than any of them ({p_value})."


def say_why(
    cluster: ClusterResult, level: float | None, heaviest: tuple[str, float] | None = None
) -> str:
    """Say why a candidate is significant or not: how many documents confirm it, what support chance
    reaches, what the paper's test says, and what could be misleading.

    `heaviest` is the document with most of its words, and its share of them.
    """
    confirming = sum(document.share >= CONFIRMING for document in cluster.documents)
    clauses = [
        f"{confirming:,} of {count(cluster.size, 'document')} draw at least a tenth of their words"
        " from its topic"
    ]
    others, support = cluster.reference_support, cluster.support
    if others and support is not None:
        clauses.append(
            f"its support is {show_decimal(support)}, while"
            f" {count(len(others), 'held-out search', 'held-out searches')} reached at most"
            f" {show_decimal(max(others))}"
        )
    p_value = f"p = {show_p_value(cluster.p_value)}".replace(" ", "\N{NO-BREAK SPACE}")
    if cluster.search_p_value is None:
        clauses.append(f"the paper's test decides ({p_value})")
    elif level is not None and cluster.bootstrap_scores:
        agrees = (cluster.p_value <= level) == cluster.significant
        clauses.append(f"the paper's test {'agrees' if agrees else 'disagrees'} ({p_value})")
    if cluster.n_copies:
        copies = count(cluster.n_copies, "near-duplicate")
        clauses.append(f"{copies} of its documents were not counted")
    if heaviest is not None and heaviest[1] > DOMINATING and cluster.size > 1:
        name, share = heaviest
        clauses.append(f"one document, {name}, has {share:.0%} of the words that set it apart")
    limit = "" if level is None else f" at the level of {level:g}"
    verdict = "Significant" if cluster.significant else "Not significant"
    if cluster.kind == "drift":
        verdict, limit = "Drift, no alarm", ""
        clauses.append("documents on a normal topic are gradually adopting its words")
    return f"{verdict}{limit}: {'; '.join(clauses)}."


def say_reason(cluster: ClusterResult, level: float | None) -> str:
    """Say why a candidate raises no alarm; nothing for one that does."""
    if cluster.kind == "drift":
        return "It is drift: documents on a normal topic are gradually adopting its words."
    if cluster.significant:
        return ""
    limit = "the level" if level is None else f"the level of {level:g}"
    if found := say_found(cluster):
        return (
            f"It was found in {found} repeats, but its p-value over all of them is above {limit}."
        )
    others, support = cluster.reference_support, cluster.support
    if others is not None and support is not None:
        if support <= 0:
            return "Documents on its topic are just as frequent among normal documents."
        if reaching := sum(other >= support for other in others):
            searches = (
                f"{reaching} of {count(len(others), 'search', 'searches')}"
                if reaching < len(others)
                else "Every search"
            )
            return f"{searches} in held-out normal documents found at least as much support."
        return f"Its search p-value, {show_p_value(cluster.deciding_p_value)}, is above {limit}."
    if not cluster.bootstrap_scores:
        return "It could not be tested, because too few normal documents are similar."
    p_value = show_p_value(cluster.p_value)
    return f"Its p-value, {p_value}, is above {limit}; the test stopped once that was certain."


def say_found(cluster: ClusterResult) -> str:
    """Return in how many repeats a cluster was found, such as `2 of 5`, or nothing if in none."""
    repeats = cluster.repeats
    return f"{repeats.found} of {repeats.of}" if repeats and repeats.found else ""


def say_repeats(cluster: ClusterResult) -> str:
    """Say in which repeats a cluster was found; nothing if detection ran once."""
    repeats = cluster.repeats
    if not repeats:
        return ""
    found = say_found(cluster) or f"none of {repeats.of}"
    sentence = (
        f"Found in {found} repeats, each with its own null model; the p-value over all of them is"
        f" {show_p_value(repeats.p_value)}."
    )
    if repeats.shown > 1:
        sentence += f" It is shown as found by repeat {repeats.shown}, the first to find it."
    return sentence


def say_growth(cluster: ClusterResult) -> str:
    """Say how a cluster grew step by step."""
    start = (
        f"It grew from one document in {count(len(cluster.growth), 'step')}; the next document"
        " is always the one that gains most from the new topic."
    )
    if any(step.failed for step in cluster.growth):
        start += " In steps with a hollow dot the new topic was not significant."
    n_docs = len(cluster.documents)
    kept = "first document" if n_docs == 1 else f"first {count(n_docs, 'document')}"
    return f"{start} The cluster is the {kept}."
