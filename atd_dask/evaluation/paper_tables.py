"""The tables of the paper, with its figures next to ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from atd_dask.evaluation import paper
from atd_dask.evaluation.comparison import Spread
from atd_dask.result_types import Agreement, ClusterEvaluation, ClusterResult, Result, SalientWord

NONE = "–"


@dataclass(frozen=True)
class Table:
    """Text in rows and columns, with notes."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class MethodFigures:
    """The best figures of a method in its grid for each seed, and the settings."""

    method: str
    group_f1: Spread
    group_auc: Spread
    group_f1_remaining: Spread
    group_auc_remaining: Spread
    individual_f1: Spread | None = None
    individual_auc: Spread | None = None
    group_auc_unsorted: Spread | None = None
    group_settings: tuple[str, ...] = ()
    individual_settings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Words:
    """Sample words of a topic, one list for each row of the table."""

    corpus: str
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class CorpusFigures:
    """All figures for one corpus."""

    corpus: str
    results: tuple[Result, ...]  # of ATD, one for each seed
    methods: tuple[MethodFigures, ...]
    words: Words | None
    told: tuple[MethodFigures, ...] = ()  # ranking methods that know the true numbers


def make_tables(corpora: Sequence[CorpusFigures]) -> list[Table]:
    """Make the tables in the paper's order: clusters of the synthetic data, comparison, sample
    words, clusters of the other corpora."""
    numbered = [(paper.CLUSTER_TABLES[one.corpus], tabulate_clusters(one)) for one in corpora]
    order = [name for name in paper.CLUSTER_TABLES if any(c.corpus == name for c in corpora)]
    by_name = {one.corpus: one for one in corpora}
    numbered += [(paper.COMPARISON_TABLE, tabulate_methods(by_name[name])) for name in order]
    numbered += [
        (paper.COMPARISON_TABLE, tabulate_told(by_name[name]))
        for name in order
        if by_name[name].told
    ]
    words = [one.words for one in corpora if one.words is not None]
    if words:
        numbered.append((paper.WORDS_TABLE, tabulate_words(words)))
    return [table for _, table in sorted(numbered, key=lambda pair: pair[0])]


def tabulate_clusters(figures: CorpusFigures) -> Table:
    """Make a row for each cluster of the paper; ours are over the seeds that found that label."""
    header = (
        *("label", "documents: paper", "ours", "recall: paper", "ours, of the whole batch"),
        *("ours, of what was left", "precision: paper", "ours", "p-value: paper", "ours"),
        *("ours, by search", "salient words occurring: paper", "ours", "in all: paper", "ours"),
        "seeds",
    )
    n_seeds = len(figures.results)
    rows = []
    for row in paper.CLUSTERS[figures.corpus]:
        found = [c for c in (find_cluster(r, row.label) for r in figures.results) if c is not None]
        rows.append(
            (
                row.label or "not significant",
                *(str(row.size), _spread((c.size for c in found), 0)),
                *(_show(row.recall), *_metric(found, lambda one: one.recall)),
                *(_show(row.precision), _metric(found, lambda one: one.precision)[0]),
                *(row.p_value, _spread((c.p_value for c in found), 4)),
                _spread((c.search_p_value for c in found if c.search_p_value is not None), 2),
                *(str(row.occurring), _spread((c.n_salient_occurring for c in found), 0)),
                *(str(row.total), _spread((c.n_salient for c in found), 0)),
                f"{len(found)} of {n_seeds}",
            )
        )
    number = paper.CLUSTER_TABLES[figures.corpus]
    return Table(
        f"Table {number}. Clusters that ATD finds in {paper.TITLES[figures.corpus]}",
        header,
        tuple(rows),
        (paper.CLUSTER_NOTES[figures.corpus], *_tell_others(figures)),
    )


def find_cluster(result: Result, label: str | None) -> ClusterResult | None:
    """Return the first significant cluster whose majority has the label; without a label, the best
    supported candidate that is not significant."""
    for cluster in result.clusters:
        if label is None and not cluster.significant:
            return cluster
        if label is not None and cluster.significant and _label(cluster) == label:
            return cluster
    return None


def _label(cluster: ClusterResult) -> str | None:
    return None if cluster.evaluation is None else cluster.evaluation.label


def _tell_others(figures: CorpusFigures) -> list[str]:
    """Note the significant clusters that have no row."""
    notes = []
    for result in figures.results:
        significant = result.significant
        n_more = len(significant) - len({_label(c) for c in significant} - {None})
        if n_more:
            notes.append(f"With seed {result.seed} there are {n_more} more significant clusters.")
    return notes


def tabulate_methods(figures: CorpusFigures) -> Table:
    """Make a row for each method."""
    header = (
        *("method", "group F1: paper", "ours", "ours, of what was left"),
        *("group AUC: paper", "ours", "ours, of what was left", "ours, in the order of the batch"),
        *("individual F1: paper", "ours", "individual AUC: paper", "ours"),
    )
    rows = []
    for ours in figures.methods:
        theirs = paper.COMPARISON[figures.corpus].get(ours.method, paper.PaperFigures())
        rows.append(
            (
                paper.METHODS[ours.method],
                _show(theirs.group_f1),
                *(ours.group_f1.show(), ours.group_f1_remaining.show()),
                _show(theirs.group_auc),
                *(ours.group_auc.show(), ours.group_auc_remaining.show()),
                _show_spread(ours.group_auc_unsorted),
                *(_show(theirs.individual_f1), _show_spread(ours.individual_f1)),
                *(_show(theirs.individual_auc), _show_spread(ours.individual_auc)),
            )
        )
    return Table(
        f"Table {paper.COMPARISON_TABLE}. Comparison on {paper.TITLES[figures.corpus]}",
        header,
        tuple(rows),
        (
            "Figures of all methods but ATD are upper bounds: they are for the settings in the grid"
            " with the best F1 on the test batch, chosen separately for groups and for documents.",
            "All methods name as many clusters, and as many documents, as ATD finds with the same"
            " seed. AUC takes the documents of a cluster in descending order of anomaly; the paper"
            " does not say in which order it takes those of an LDA. In the batches of the paper the"
            " anomalous documents come last.",
            "The last three methods are not in the paper. Like ATD, they see the whole batch and"
            " the training documents, while the others judge each document by itself. NN: the mean"
            " tf-idf similarity to the K nearest documents of the batch minus that to the 3K"
            " nearest of training. Regression: the out-of-fold probability of a logistic regression"
            " of batch against training. KMeans: clusters of the batch, ranked by how much larger"
            " their share of the batch is than their share of training.",
            "ATD with LDA follows the rules of the paper; its clusters are stopped at 500"
            " documents.",
        ),
    )


def tabulate_told(figures: CorpusFigures) -> Table:
    """Compare ATD, which decides by itself, with methods that know how much there is to find."""
    header = ("method", "group F1", "group AUC", "individual F1", "individual AUC")
    own = [method for method in figures.methods if method.method == "ATD"]
    rows = [
        (
            paper.METHODS[one.method],
            *(one.group_f1.show(), one.group_auc.show()),
            *(_show_spread(one.individual_f1), _show_spread(one.individual_auc)),
        )
        for one in (*own, *figures.told)
    ]
    return Table(
        f"Table {paper.COMPARISON_TABLE}, given the true numbers."
        f" Comparison on {paper.TITLES[figures.corpus]}",
        header,
        tuple(rows),
        (
            "All methods but ATD name as many clusters as there are anomalous classes, and as many"
            " documents as are anomalous; their settings are the best on the test batch.",
        ),
    )


def tabulate_words(words: Sequence[Words]) -> Table:
    """Make the rows of the paper, with a column of its words and one of ours for each topic."""
    header = [""]
    for one in words:
        header += [f"{paper.WORDS[one.corpus][0]}: paper", "ours"]
    rows = []
    for number, kind in enumerate(paper.WORD_ROWS):
        row = [kind]
        for one in words:
            theirs = paper.WORDS[one.corpus][1][number]
            row += [", ".join(theirs.split()), ", ".join(one.rows[number])]
        rows.append(tuple(row))
    return Table(
        f"Table {paper.WORDS_TABLE}. Sample words of topics that were found",
        tuple(header),
        tuple(rows),
        ("Ours are those of the first seed. Words are stems.",),
    )


def choose_words(
    salient: Sequence[SalientWord],
    usual: Mapping[str, float],
    occurring: Iterable[str],
    n: int = 10,
) -> tuple[tuple[str, ...], ...]:
    """Choose the four lists of words for the topic of a cluster.

    `usual` has the shared probabilities, and `occurring` the words of its documents. Words of low
    probability are those that the topic uses least, compared with what is usual.
    """

    def lack(word: SalientWord) -> float:
        return word.probability - word.shared_probability

    likely = sorted(salient, key=lambda w: (-w.probability, w.word))
    high = [w.word for w in likely if w.is_raised]
    low = sorted((w for w in salient if lack(w) < 0), key=lack)
    specific = {w.word for w in salient}
    shared = sorted(set(occurring) - specific, key=lambda word: (-usual[word], word))
    return (
        tuple(high[:n]),
        tuple([w.word for w in low if w.occurring][:n]),
        tuple([w.word for w in low if not w.occurring][:n]),
        tuple(shared[:n]),
    )


def write_markdown(tables: Iterable[Table]) -> str:
    return "\n".join(_write_table(table) for table in tables)


def _write_table(table: Table) -> str:
    lines = [
        f"## {table.title}",
        "",
        _write_row(table.header),
        _write_row(["---"] * len(table.header)),
    ]
    lines += [_write_row(row) for row in table.rows]
    for note in table.notes:
        lines += ["", note]
    return "\n".join([*lines, ""])


def _write_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _metric(
    found: Sequence[ClusterResult], read: Callable[[Agreement | ClusterEvaluation], float]
) -> tuple[str, str]:
    judged = [cluster.evaluation for cluster in found if cluster.evaluation]
    return (
        _spread((read(one) for one in judged), 2),
        _spread((read(one.of_remaining) for one in judged), 2),
    )


def _spread(values: Iterable[float], places: int) -> str:
    some = list(values)
    return Spread.of(some).show(places) if some else NONE


def _show(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}"


def _show_spread(value: Spread | None) -> str:
    return NONE if value is None else value.show()
