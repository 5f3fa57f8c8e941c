"""What a page says in sentences, from the numbers of a result."""

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
    """A piece of a sentence; words of a cluster stand out."""

    text: str
    stands_out: bool = False


def say_verdict(
    n_documents: int,
    found: Sequence[tuple[int, Sequence[str]]],
    candidate: int | None,
    searched: bool,
    in_repeats: str = "",
) -> tuple[Phrase, ...]:
    """The result in one sentence; `found` has the size and the words of each significant cluster,
    `candidate` the size of the best of those that were not significant, `in_repeats` how many
    repeats found that one, if any did."""
    where = f"in {count(n_documents, 'document')}"
    if not found:
        rest = "there was no candidate to test"
        if candidate is not None:
            failed = (
                "has no more support than chance finds" if searched else "did not pass the test"
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
            phrases.append(Phrase(f"{count(size, 'document')} that lack words that are usual"))
    if more:
        documents = count(sum(size for size, _ in more), "document")
        phrases.append(Phrase(f", and {documents} in {len(more)} more"))
    phrases.append(Phrase("."))
    return tuple(phrases)


def _list_words(words: Sequence[str]) -> Iterator[Phrase]:
    """`a, b and c`; each word apart, as it may run from right to left."""
    for index, word in enumerate(words):
        if index:
            yield Phrase(" and " if index == len(words) - 1 else ", ")
        yield Phrase(word, stands_out=True)


def say_p_value(cluster: ClusterResult) -> str:
    """How the cluster stands among its bootstrap clusters."""
    scores = cluster.bootstrap_scores
    if not scores:
        return (
            "No bootstrap cluster could be drawn, as there are too few normal documents that are"
            " similar, so the p-value is set to 1."
        )
    above = sum(score > cluster.score for score in scores)
    p_value = f"p = {show_p_value(cluster.p_value)}".replace(" ", "\N{NO-BREAK SPACE}")
    if above:
        return f"{above:,} of {count(len(scores), 'bootstrap cluster')} scored higher: {p_value}."
    return (
        f"None of {count(len(scores), 'bootstrap cluster')} scored higher: {p_value}, the smallest"
        " value that so many can give."
    )


def say_searches(cluster: ClusterResult) -> str:
    """How the support of the cluster stands among what the same search finds where there is nothing
    to find."""
    others, support = cluster.reference_support, cluster.support
    if others is None or support is None:
        return (
            "No searches in held-out normal documents were made, so nothing accounts for the"
            " search that chose this cluster among many."
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
    """Why a candidate is significant or not, in a sentence: who confirms it, what chance reaches,
    what the test of the paper says, and what could mislead.

    `heaviest` is the document with most of its words, and its share of them.
    """
    confirming = sum(document.share >= CONFIRMING for document in cluster.documents)
    clauses = [
        f"{confirming:,} of {count(cluster.size, 'document')} owe a tenth of their words or more to"
        " its topic"
    ]
    others, support = cluster.reference_support, cluster.support
    if others and support is not None:
        clauses.append(
            f"by chance a search reaches a support of {show_decimal(max(others))} in"
            f" {count(len(others), 'try', 'tries')}, and it has {show_decimal(support)}"
        )
    p_value = f"p = {show_p_value(cluster.p_value)}".replace(" ", "\N{NO-BREAK SPACE}")
    if cluster.search_p_value is None:
        clauses.append(f"the test of the paper decides ({p_value})")
    elif level is not None and cluster.bootstrap_scores:
        agrees = (cluster.p_value <= level) == cluster.significant
        clauses.append(f"the test of the paper {'agrees' if agrees else 'disagrees'} ({p_value})")
    if cluster.n_copies:
        copies = count(cluster.n_copies, "near-duplicate")
        clauses.append(f"{copies} of its documents did not count")
    if heaviest is not None and heaviest[1] > DOMINATING and cluster.size > 1:
        name, share = heaviest
        clauses.append(f"one document, {name}, has {share:.0%} of the words that set it apart")
    limit = "" if level is None else f" at the level of {level:g}"
    verdict = "Significant" if cluster.significant else "Not significant"
    if cluster.kind == "drift":
        verdict, limit = "Drift, no alarm", ""
        clauses.append("documents of a normal topic take up its words bit by bit")
    return f"{verdict}{limit}: {'; '.join(clauses)}."


def say_reason(cluster: ClusterResult, level: float | None) -> str:
    """Why a candidate raises no alarm; nothing for one that does."""
    if cluster.kind == "drift":
        return "It is drift: documents of a normal topic take up its words bit by bit."
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
            return "Documents that bear out its topic are as frequent among the normal ones."
        if reaching := sum(other >= support for other in others):
            searches = (
                f"{reaching} of {count(len(others), 'search', 'searches')}"
                if reaching < len(others)
                else "Every search"
            )
            return f"{searches} in held-out normal documents found as much support."
        return f"Its search p-value, {show_p_value(cluster.deciding_p_value)}, is above {limit}."
    if not cluster.bootstrap_scores:
        return "It could not be tested: too few normal documents are similar."
    p_value = show_p_value(cluster.p_value)
    return f"Its p-value, {p_value}, is above {limit}; the test ended as soon as that was certain."


def say_found(cluster: ClusterResult) -> str:
    """In how many repeats a cluster was found, such as `2 of 5`; nothing if in none."""
    told = cluster.repeats
    return f"{told.found} of {told.of}" if told and told.found else ""


def say_repeats(cluster: ClusterResult) -> str:
    """What repeats with other null models say of a cluster; nothing where there were none."""
    told = cluster.repeats
    if not told:
        return ""
    found = say_found(cluster) or f"none of {told.of}"
    sentence = (
        f"Found in {found} repeats, each with a null model of its own; p-value over all of them"
        f" {show_p_value(told.p_value)}."
    )
    if told.shown > 1:
        sentence += f" It is shown as repeat {told.shown} has it, the first that found it."
    return sentence


def say_growth(cluster: ClusterResult) -> str:
    """How a cluster came about that was grown step by step."""
    start = (
        f"From one document it grew in {count(len(cluster.growth), 'step')}; the next document"
        " is always the one that gains most from the new topic."
    )
    if any(step.failed for step in cluster.growth):
        start += " In those with a hollow dot the new topic was not significant."
    n_docs = len(cluster.documents)
    kept = "first document" if n_docs == 1 else f"first {count(n_docs, 'document')}"
    return f"{start} The cluster is the {kept}."
