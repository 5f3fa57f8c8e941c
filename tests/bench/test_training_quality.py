from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_matrix

from atd_dask.bench import training_quality
from atd_dask.bench.topic_learners import (
    FLOOR,
    complete_documents,
    count_lda_parameters,
    count_parameters,
)
from atd_dask.bench.training_quality import generate_documents, split_halves, train_generated
from atd_dask.bench.usage import spread
from atd_dask.cli.command import atd
from atd_dask.config import paper_corpora
from atd_dask.config.run_config import TopicsConfig
from atd_dask.kernels.model import WordTable

counts = arrays(
    np.int64, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=st.integers(0, 9)
)


@given(counts, st.data())
def test_halves_are_the_documents(documents, data):
    known = np.array(data.draw(st.lists(st.booleans(), min_size=5, max_size=5)))
    known = known[: documents.shape[1]]
    halves = split_halves(csr_matrix(documents), known)
    rest = documents * known
    rest = rest[rest.sum(axis=1) >= 2]
    observed, held_out = halves.observed.toarray(), halves.held_out.toarray()
    assert (observed >= 0).all()
    assert (held_out >= 0).all()
    assert (observed + held_out == rest).all()
    assert (observed.sum(axis=1) == rest.sum(axis=1) // 2).all()


def test_halves_are_drawn_by_token_and_always_the_same():
    documents = csr_matrix(np.full((50, 2), 100))
    known = np.ones(2, bool)
    first, again = (split_halves(documents, known).observed.toarray() for _ in range(2))
    assert (first == again).all()
    # Hypergeometric with mean 50 and standard deviation 3.5: neither all of a word nor always half.
    assert 1 < first[:, 0].std() < 8
    assert abs(first[:, 0].mean() - 50) < 3


@given(counts.filter(np.any), st.integers(1, 4))
def test_completion_equals_a_loop(held_out, n_topics):
    n_docs, n_words = held_out.shape
    rng = np.random.default_rng(3)
    theta = rng.dirichlet(np.ones(n_topics), n_docs)
    beta = rng.dirichlet(np.ones(n_words), n_topics)
    total = 0.0
    for d in range(n_docs):
        for w in range(n_words):
            p = sum(theta[d, k] * beta[k, w] for k in range(n_topics))
            total += held_out[d, w] * math.log(p)
    expected = total / held_out.sum()
    found, n_low = complete_documents(theta, beta, csr_matrix(held_out))
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert n_low == 0


def test_what_a_method_rules_out_counts_with_the_floor():
    theta, beta = np.array([[1.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])
    likelihood, n_low = complete_documents(theta, beta, csr_matrix([[1, 3]]))
    assert likelihood == pytest.approx(0.75 * math.log(FLOOR))
    assert n_low == 3


def test_parameters():
    assert count_lda_parameters(3, 10) == 27
    # The shared model has two of three words; one topic has one for itself.
    one = np.ones(1)
    table = WordTable(
        2, np.array([0.5, 0.5, 0.0]), np.array([0, 1, 1, 1]), np.zeros(1, np.int32), one, one, one
    )
    assert count_parameters(table) == 3


def test_spread():
    assert spread([1234.5], 1) == "1,234.5"
    assert spread([2.0, 2.0], 0) == "2"
    assert spread([1.0, 2.0, 4.5], 2) == "2.50 (1.00 to 4.50)"


def test_the_generated_documents_have_the_topics_that_they_were_made_from():
    assert train_generated().n_topics_ == 4


def write_corpus(folder: Path) -> None:
    own = folder / "reuters"
    own.mkdir()
    documents = generate_documents(n_docs=120, n_topics=3, n_words=60)
    own.joinpath("vocabulary.txt").write_text("".join(f"word{n}\n" for n in range(60)))
    for part, rows in (
        ("train", slice(80)),
        ("validation", slice(80, 90)),
        ("test", slice(90, 120)),
    ):
        lines = []
        for row in documents[rows]:
            terms = np.flatnonzero(row)
            lines.append(" ".join([str(len(terms)), *(f"{t}:{row[t]}" for t in terms)]) + "\n")
        with gzip.open(own / f"{part}.ldac.gz", "wt") as file:
            file.writelines(lines)
        own.joinpath(f"{part}.labels").write_text("x\n" * len(lines))


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(atd, ["bench", "train", *arguments])


@pytest.mark.filterwarnings("ignore:builtin type:DeprecationWarning")
def test_the_command(tmp_path, monkeypatch):
    pytest.importorskip("gensim")
    pytest.importorskip("sklearn")
    pytest.importorskip("tomotopy")
    caches = []
    monkeypatch.setattr(training_quality, "start_process", caches.append)
    monkeypatch.setitem(paper_corpora.TOPICS, "reuters", TopicsConfig(max=5, min=2))
    monkeypatch.setitem(paper_corpora.ANOMALOUS, "reuters", ("x",))
    write_corpus(tmp_path)
    result = invoke("reuters", "--corpora", str(tmp_path), "--seeds", "1")
    assert result.exit_code == 0, result.stderr
    searches, comparison, times = (
        [line.split("  ") for line in table.splitlines()]
        for table in result.stdout.rstrip("\n").split("\n\n")
    )
    cells = [[[c.strip() for c in line if c] for line in t] for t in (searches, comparison, times)]
    searches, comparison, times = cells
    assert searches[0][:4] == ["search over orders", "seed", "topics", "BIC"]
    assert [row[1] for row in searches[1:]] == ["1", "all"]
    assert {row[2] for row in searches[1:]} == {"3"}
    assert [row[1] for row in comparison[1:]] == [
        "PTM, 5 to 2 topics, best of 1",
        *training_quality.METHODS,
    ]
    assert {row[2] for row in comparison[1:]} == {"3"}
    for row in comparison[1:]:
        # Better than a word drawn blindly, and possible.
        assert -math.log(60) < float(row[4]) < 0
    assert {row[5] for row in comparison[3:]} == {"177"}
    assert [row[0] for row in times[1:]] == [
        "reuters, 4 searches over orders, 1 worker",
        "reuters, 4 searches over orders, 2 workers",
        "a new process, nothing compiled",
        "a new process, kernels in the cache",
    ]
    assert len(caches) == 2
    assert caches[0] == caches[1]
    assert "warning" not in result.stderr


def test_a_missing_package_is_a_sentence(monkeypatch):
    monkeypatch.setattr(training_quality, "find_spec", lambda name: None)
    result = invoke("reuters")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr == (
        "error: the packages to compare with must be installed, but gensim and sklearn and tomotopy"
        " are missing: pip install 'atd-dask[bench]'\n"
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["brown"], "a corpus of the paper must be reuters or newsgroups or synthetic, got brown"),
        (["reuters", "--corpora", "nowhere"], "the folder of prepared corpora must be"),
        (["reuters", "--seeds", "0"], "0 is not in the range x>=1"),
    ],
)
def test_a_mistake_is_a_sentence(arguments, sentence, monkeypatch):
    monkeypatch.setattr(training_quality, "find_spec", lambda name: True)
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert sentence in result.stderr


def test_a_new_process_trains_and_keeps_its_kernels(tmp_path, monkeypatch):
    calls = []

    def run(command, env, check):
        calls.append((command, env["ATD_DASK_CACHE"], check))
        exec(command[2], {})  # what the new process does

    monkeypatch.setattr(training_quality.subprocess, "run", run)
    training_quality.start_process(str(tmp_path))
    ((_, cache, check),) = calls
    assert (cache, check) == (str(tmp_path), True)
