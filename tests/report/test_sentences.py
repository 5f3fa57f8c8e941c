"""Every candidate says why it is significant or not."""

from __future__ import annotations

from atd_dask.report.sentences import say_reason, say_why
from tests.results import make_cluster_result


def tell(cluster, level=0.01, heaviest=None):
    return say_why(cluster, level, heaviest).replace("\N{NO-BREAK SPACE}", " ")


def make(**told):
    documents = [{"row": row, "id": str(row), "share": share} for row, share in enumerate(SHARES)]
    told = {"size": 3, "documents": documents, "bootstrap_scores": [1.0, 2.0]} | told
    return make_cluster_result(**told)


SHARES = (0.5, 0.2, 0.05)
JUDGED = {"support": 90.5, "search_p_value": 0.0001, "reference_support": [20.0, 41.0]}


def test_a_significant_one():
    cluster = make(significant=True, p_value=0.005, **JUDGED)
    assert tell(cluster) == (
        "Significant at the level of 0.01: 2 of 3 documents draw at least a tenth of their words"
        " from its topic; its support is 90.5, while 2 held-out searches reached at most 41.0; the"
        " paper's test agrees (p = 0.005)."
    )
    assert say_reason(cluster, 0.01) == ""


def test_what_could_mislead():
    cluster = make(significant=True, p_value=0.4, n_copies=4, **JUDGED)
    told = tell(cluster, heaviest=("letter 7", 0.62))
    assert "the paper's test disagrees (p = 0.4)" in told
    assert "4 near-duplicates of its documents were not counted" in told
    assert told.endswith("one document, letter 7, has 62% of the words that set it apart.")
    assert "letter 7" not in tell(cluster, heaviest=("letter 7", 0.4))


def test_one_that_failed_and_one_that_the_paper_judges():
    failed = make(significant=False, p_value=0.5, **JUDGED | {"search_p_value": 0.3})
    assert tell(failed).startswith("Not significant at the level of 0.01: 2 of 3 documents")
    paper = make(significant=False, p_value=0.5)
    assert tell(paper).endswith("the paper's test decides (p = 0.5).")


def test_drift():
    cluster = make(significant=True, p_value=0.5, kind="drift", **JUDGED)
    assert tell(cluster).startswith("Drift, no alarm: ")
    assert tell(cluster).endswith("documents on a normal topic are gradually adopting its words.")
    assert say_reason(cluster, 0.01).startswith("It is drift")
