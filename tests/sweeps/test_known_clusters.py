"""Documents join a known cluster by its new words, not by those of a normal topic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from atd_dask import CorpusStore, ParsimoniousTopicModel
from atd_dask.config.loader import make_detection
from atd_dask.config.rules import make_rules
from atd_dask.distribution.engine.runner import Runner
from atd_dask.documents import CountBatch
from atd_dask.storage.corpus_writer import CorpusWriter
from atd_dask.sweeps.known_clusters import DORMANT, find_same, has_words, recognise
from atd_dask.sweeps.state import KnownCluster
from tests.kernels.strategies import make_block


@pytest.mark.parametrize(
    ("new", "joining"),
    [
        ([0, 1], [True, False, False, False]),
        ([0, 1, 2], [True, False, True, False]),
        ([0], [True, True, False, False]),
        ([], [False, False, False, False]),
    ],
)
def test_a_document_must_have_two_of_the_new_words(new, joining):
    counts = np.array([[2, 1, 0, 0], [9, 0, 0, 1], [0, 1, 1, 0], [0, 0, 0, 5]])
    words = np.isin(np.arange(4), new)
    assert has_words(make_block(counts), words).tolist() == joining


@pytest.mark.parametrize(
    ("words", "same"),
    [
        ("a b c d e x y", True),
        ("a b c d e", True),
        ("a b c d e u v w x y z", False),  # less than half
        ("a", False),  # a normal topic took up one of its words
        ("a b c", False),
    ],
)
def test_a_cluster_about_the_same_words_is_the_known_one(words, same):
    known = KnownCluster(number=1, words=tuple("abcdefghijklmnopqrst"), written=(), p_value=0.001)
    assert find_same(words.split(), {0: known}) == (0 if same else None)


def test_a_known_cluster_with_few_words_needs_all_of_them():
    known = KnownCluster(number=1, words=("a", "b"), written=(), p_value=0.001)
    assert find_same(["b", "a"], {0: known}) == 0
    assert find_same(["a", "c"], {0: known}) is None
    assert find_same(list("abcdefghijklmnopqrst"), {0: known}) is None
    assert find_same(["c"], {0: replace(known, words=())}) is None


def test_documents_with_a_few_words_of_a_cluster_do_not_join_it(tmp_path):
    """Another new topic may have some of the same words."""
    stream = np.random.default_rng(1)
    normal, cluster, other = np.arange(10), np.arange(10, 20), np.r_[10:13, 20:27]

    def draw(words, n):
        counts = np.zeros((n, 30), np.int64)
        for row in counts:
            np.add.at(row, stream.choice(normal, 15), 1)
            np.add.at(row, stream.choice(words, 15), 1)
        return counts

    # All words occur in training; those of the two clusters are rare.
    training = np.vstack((draw(normal, 60), np.tile(np.arange(30) >= 10, (2, 1)).astype(np.int64)))
    words = [f"w{word:02d}" for word in range(30)]
    table = ParsimoniousTopicModel(1, vocabulary=words).fit(training).model_.table
    batch = np.vstack((draw(cluster, 8), draw(other, 8), draw(normal, 30)))
    known = write_store(tmp_path / "known.zarr", draw(cluster, 20), words, "1")
    test = write_store(tmp_path / "test.zarr", batch, words, "")
    seen = KnownCluster(number=1, words=(), written=(), p_value=0.001, sweeps=(3, 4))
    rules = make_rules(make_detection({}))
    found = recognise(table, words, [seen], known, test, rules, Runner(), 5)
    assert np.flatnonzero(found.members >= 0).tolist() == list(range(8))
    assert found.table.n_topics == 2
    later = recognise(table, words, [seen], known, test, rules, Runner(), 5 + DORMANT)
    assert (later.members < 0).all(), "the cluster is dormant"
    assert later.table.n_topics == 1


def write_store(path, counts, words, label):
    ids = [str(row) for row in range(len(counts))]
    labels = [(label,) if label else () for _ in ids]
    with CorpusWriter(path, words) as writer:
        writer.append(CountBatch(ids, labels, *make_block(counts).arrays))
    return CorpusStore.open(path)
