"""The figures of the paper (H. Soleimani and D. J. Miller, *ATD: Anomalous Topic Discovery in High
Dimensional Discrete Data*, tables 1 to 5)."""

from __future__ import annotations

from dataclasses import dataclass

TITLES = {"synthetic": "synthetic data", "newsgroups": "20 Newsgroups", "reuters": "Reuters"}

METHODS = {
    "ATD": "ATD",
    "ATD_LDA": "ATD with LDA",
    "M4": "M4",
    "LB": "LB",
    "SVM_linear": "SVM (linear)",
    "SVM_RBF": "SVM (RBF)",
    "NN_LDA": "NN (LDA)",
    "NN_BOW": "NN (BOW)",
    # Not in the paper; these methods see the whole batch.
    "NN_batch": "NN (batch)",
    "LR_batch": "regression (batch)",
    "KMeans_batch": "KMeans (batch)",
}


@dataclass(frozen=True)
class PaperCluster:
    """A row of table 1, 4 or 5. The last candidate, which is not significant, has no label."""

    size: int
    label: str | None
    recall: float | None
    precision: float | None
    p_value: str
    occurring: int
    total: int


@dataclass(frozen=True)
class PaperFigures:
    """A method in table 2."""

    group_f1: float | None = None
    group_auc: float | None = None
    individual_f1: float | None = None
    individual_auc: float | None = None


CLUSTER_TABLES = {"synthetic": 1, "newsgroups": 4, "reuters": 5}
COMPARISON_TABLE, WORDS_TABLE = 2, 3

CLUSTERS = {
    "synthetic": (
        PaperCluster(32, "11", 1.0, 0.94, "<0.001", 52, 113),
        PaperCluster(32, "10", 1.0, 0.94, "<0.001", 64, 111),
        PaperCluster(11, None, None, None, "0.34", 1, 2),
    ),
    "newsgroups": (
        PaperCluster(115, "rec.sport.hockey", 0.76, 0.98, "<0.001", 344, 429),
        PaperCluster(100, "talk.politics.mideast", 0.82, 0.90, "<0.001", 230, 286),
        PaperCluster(5, None, None, None, "0.201", 6, 7),
    ),
    "reuters": (
        PaperCluster(97, "coffee", 0.99, 0.87, "<0.001", 166, 193),
        PaperCluster(49, "ship", 0.77, 0.77, "0.003", 160, 180),
        PaperCluster(5, None, None, None, "0.11", 16, 19),
    ),
}

# The paper computes recall against what earlier clusters left over.
CLUSTER_NOTES = {
    "synthetic": "The paper counts topics from 1: its topics 12 and 11 are the labels 11 and 10.",
    "newsgroups": "No cluster has anomalous documents of the other's label, so the paper's recall"
    " is also that for the whole batch.",
    "reuters": "Against the whole batch the paper's second cluster has recall 0.68, and its group"
    " F1 and AUC are 0.82 and 0.75.",
}

COMPARISON = {
    "synthetic": {
        "ATD": PaperFigures(0.97, 0.97, 0.97, 0.96),
        "M4": PaperFigures(0.13, 0.08),
        "LB": PaperFigures(0.66, 0.31, 0.95, 0.96),
        "SVM_linear": PaperFigures(0.61, 0.31, 0.90, 0.90),
        "SVM_RBF": PaperFigures(0.76, 0.41, 0.5, 0.32),
        "NN_LDA": PaperFigures(0.24, 0.04, 0.90, 0.84),
        "NN_BOW": PaperFigures(0.24, 0.04, 0.84, 0.83),
    },
    "newsgroups": {
        "ATD": PaperFigures(0.86, 0.72, 0.86, 0.77),
        "ATD_LDA": PaperFigures(0.16, 0.038),
        "M4": PaperFigures(0.39, 0.15),
        "LB": PaperFigures(0.57, 0.23, 0.32, 0.13),
        "SVM_linear": PaperFigures(0.41, 0.25, 0.21, 0.06),
        "SVM_RBF": PaperFigures(0.41, 0.25, 0.22, 0.04),
        "NN_LDA": PaperFigures(0.26, 0.07, 0.34, 0.06),
        "NN_BOW": PaperFigures(0.50, 0.17, 0.44, 0.24),
    },
    "reuters": {
        "ATD": PaperFigures(0.84, 0.79, 0.90, 0.88),
        "M4": PaperFigures(0.42, 0.14),
        "LB": PaperFigures(0.41, 0.16, 0.61, 0.43),
        "SVM_linear": PaperFigures(0.55, 0.22, 0.48, 0.32),
        "SVM_RBF": PaperFigures(0.44, 0.39, 0.54, 0.18),
        "NN_LDA": PaperFigures(0.29, 0.10, 0.62, 0.43),
        "NN_BOW": PaperFigures(0.54, 0.19, 0.69, 0.54),
    },
}

# The label of each corpus whose topic has a column in table 3, and its four rows.
WORD_ROWS = (
    "high probability, salient, occurring",
    "low probability, salient, occurring",
    "low probability, salient, not occurring",
    "high probability, shared, occurring",
)
WORDS = {
    "newsgroups": (
        "rec.sport.hockey",
        (
            "game team hockey play win pit year player post espn",
            "window graphic car error buy found case god machin appreci",
            "develop ground convert relat book drug screen modem port moral",
            "don think time good look new way well right now",
        ),
    ),
    "reuters": (
        "coffee",
        (
            "coffe export quota produc meet price brazil year intern colombia",
            "japanes mine reserv profit barrel growth reagan energi soviet japan",
            "tariff taiwan liquid baker field deposit yen inc explor canadian",
            "market last report expect month one tonn offici new end",
        ),
    ),
}
