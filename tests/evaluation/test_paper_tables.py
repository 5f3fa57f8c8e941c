from __future__ import annotations

import json

import pytest

from atd_dask.evaluation import paper
from atd_dask.evaluation.comparison import Spread
from atd_dask.evaluation.paper_tables import (
    CorpusFigures,
    MethodFigures,
    Words,
    choose_words,
    make_tables,
    write_markdown,
)
from atd_dask.result_types import SalientWord
from tests.results import make_result
from tests.shared import shared


def test_the_figures_are_those_of_the_paper():
    printed = json.loads(shared("reference/paper_tables.json").read_text())
    for corpus, methods in paper.COMPARISON.items():
        for kind in ("group", "individual"):
            for figure in ("F1", "AUC"):
                ours = {
                    name: getattr(method, f"{kind}_{figure.lower()}")
                    for name, method in methods.items()
                    if name != "ATD_LDA"
                }
                theirs = printed[kind][corpus][figure]
                assert {name: value for name, value in ours.items() if value is not None} == theirs
    lda = printed["lda_instead_of_ptm_newsgroups"]
    ours = paper.COMPARISON["newsgroups"]["ATD_LDA"]
    assert (ours.group_f1, ours.group_auc) == (lda["f1"], lda["auc"])


@pytest.mark.parametrize("corpus", paper.CLUSTERS)
def test_the_clusters_are_those_of_the_paper(corpus):
    recorded = json.loads(shared(f"reference/{corpus}_clusters.json").read_text())
    for ours, theirs in zip(paper.CLUSTERS[corpus], recorded["clusters"], strict=True):
        printed = theirs["paper"]
        assert (ours.size, ours.label, ours.recall, ours.precision, ours.p_value) == tuple(
            printed[name] for name in ("size", "label", "recall", "precision", "p_value")
        )
        assert (ours.occurring, ours.total) == (
            printed["salient_occurring"],
            printed["salient_total"],
        )


def make_cluster(label, size, significant=True, **others):
    cluster = {
        "size": size,
        "significant": significant,
        "p_value": 0.001,
        "search_p_value": 0.05 if significant else None,
        "n_salient": 20,
        "n_salient_occurring": 15,
    }
    if label:
        part = {"recall": 0.5, "precision": 1.0, "f1": 0.6, "auc": 0.5}
        left = {**part, "recall": 0.75}
        cluster["evaluation"] = {"label": label, **part, "of_remaining": left}
    return {**cluster, **others}


def make_figures(*results, words=None):
    one = Spread.of([0.5])
    methods = (
        MethodFigures("ATD", Spread.of([0.8, 0.9]), one, one, one, one, one),
        MethodFigures("M4", one, one, one, one, group_auc_unsorted=Spread.of([0.2])),
    )
    return CorpusFigures("reuters", results, methods, words)


def test_clusters_are_found_by_their_label_in_any_order():
    first = make_result(seed=1, clusters=[make_cluster("coffee", 90), make_cluster("ship", 40)])
    second = make_result(
        seed=2,
        clusters=[
            make_cluster("ship", 50),
            make_cluster("ship", 6),
            make_cluster(None, 4, significant=False),
        ],
    )
    table = make_tables([make_figures(first, second)])[-1]
    assert table.title == "Table 5. Clusters that ATD finds in Reuters"
    coffee, ship, candidate = (dict(enumerate(row)) for row in table.rows)
    assert (coffee[0], coffee[1], coffee[2], coffee[15]) == ("coffee", "97", "90", "1 of 2")
    assert (ship[2], ship[3], ship[4], ship[5]) == ("45 (40 to 50)", "0.77", "0.50", "0.75")
    assert (candidate[0], candidate[2], candidate[3], candidate[10]) == (
        "not significant",
        "4",
        "–",
        "–",
    )
    assert table.notes[-1] == "With seed 2 there are 1 more significant clusters."


def test_tables_come_in_the_order_of_the_paper():
    words = Words("reuters", (("coffe",), ("japan",), ("yen",), ("market",)))
    tables = make_tables([make_figures(make_result(seed=1), words=words)])
    assert [table.title.partition(".")[0] for table in tables] == ["Table 2", "Table 3", "Table 5"]
    text = write_markdown(tables)
    assert "| ATD | 0.84 | 0.85 (0.80 to 0.90) | 0.50 |" in text
    assert "| M4 | 0.42 | 0.50 | 0.50 | 0.14 | 0.50 | 0.50 | 0.20 | – | – | – | – |" in text
    assert "Figures of all methods but ATD are upper bounds" in text
    assert "| coffee | 97 | – |" in text
    for line in text.splitlines():
        if line.startswith("|"):
            assert line.endswith("|")


def test_sample_words():
    def word(name, probability, usual, occurring=True):
        return SalientWord(
            word=name, probability=probability, shared_probability=usual, occurring=occurring
        )

    salient = [
        word("coffe", 0.1, 0.01),
        word("quota", 0.05, 0.001),
        word("japan", 0.001, 0.02),
        word("mine", 0.001, 0.05),
        word("yen", 1e-9, 0.03, occurring=False),
    ]
    usual = {"market": 0.2, "one": 0.1, "end": 0.3, "coffe": 0.9}
    assert choose_words(salient, usual, ["market", "one", "end", "coffe"], 2) == (
        ("coffe", "quota"),
        ("mine", "japan"),
        ("yen",),
        ("end", "market"),
    )
