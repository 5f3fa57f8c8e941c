"""Words that a normal topic takes up bit by bit raise no alarm; words that come all at once do."""

from __future__ import annotations

import random
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from atd_dask.config.sweep_config import SweepConfig
from atd_dask.kernels.model import Proportions
from atd_dask.sweeps.retraining import find_reason
from atd_dask.sweeps.state import read_state
from atd_dask.sweeps.word_drift import TopicShares, find_in_block, is_drift, leave_normal
from tests.clusters import local_client
from tests.kernels.strategies import make_block
from tests.pipelines.sweeping import (
    SUBJECTS,
    age,
    make_documents,
    make_lines,
    prepare,
    read_history,
    run_sweep,
)


@pytest.fixture(scope="module")
def client():
    with local_client(1, processes=False) as made:
        yield made


def add_day(folder, day, n_with, words):
    """Thirty documents, and some more on the first subject that use new words."""
    chance = random.Random(day)
    documents = make_documents(f"day{day}", 30)
    for number in range(n_with):
        text = " ".join([*chance.choices(SUBJECTS[0], k=26), *(2 * words)[:4]])
        documents.append({"id": f"day{day}-with-{number}", "text": text})
    path = folder / "repository" / f"{day}.jsonl"
    path.write_text(make_lines(documents))
    age(path)


def test_a_word_that_spreads_is_drift(tmp_path, client):
    prepare(tmp_path)
    asked = "sweep.false_alarms={per_year: 10, sweeps: 100}"
    for day, n_with in enumerate([0, 1, 2, 3, 4], 1):
        add_day(tmp_path, day, n_with, ["neologism"])
        assert run_sweep(tmp_path, client, asked).alerts == ()
    lines = read_history(tmp_path)
    assert {line["level"] for line in lines} == {0.1}
    assert lines[-1]["chance_alarms"] == pytest.approx(0.5)
    (drift,) = lines[-1]["drifts"]
    assert drift["words"] == ["neologism"]
    assert (drift["first"], drift["counts"]) == (1, [0, 1, 2, 3, 4])
    assert drift["documents"] == [30, 31, 32, 33, 34]
    page = (tmp_path / "out/index.html").read_text()
    assert "Words that normal topics take up" in page
    assert "at most 10 in a year of 100 sweeps" in page
    report = (tmp_path / "out/sweeps/0005/report.html").read_text()
    assert "No significant cluster was found" in report
    assert "It is drift" in report
    state = read_state(str(tmp_path / "out"))
    assert state.clusters == ()
    assert state.series.alarms == ()
    assert state.drift[-1].words == ("neologism",)


def test_words_that_come_at_once_raise_an_alarm(tmp_path, client):
    prepare(tmp_path)
    kinds = []
    for day, n_with in enumerate([0, 0, 0, 24], 1):
        add_day(tmp_path, day, n_with, ["neologism"])
        outcome = run_sweep(tmp_path, client, "sweep.window=1")
        kinds.append([cluster.kind for alert in outcome.alerts for cluster in alert.clusters])
    assert kinds == [[], [], [], ["new"]]
    assert read_state(str(tmp_path / "out")).series.alarms == (4,)


def test_the_topic_that_documents_share():
    indptr = np.array([0, 1, 3, 4, 4, 5])
    topics = np.array([0, 0, 1, 1, 2], dtype=np.int32)
    theta = np.array([1.0, 0.7, 0.3, 1.0, 1.0])
    shares = TopicShares.of(Proportions(indptr, topics, theta), n_topics=2)
    assert shares.main.tolist() == [0, 0, 1, -1, -1]
    assert shares.find_common([0, 1, 2]) == 0
    assert (shares.count(0), shares.share(0)) == (2, 0.4)
    assert shares.find_common([1, 2]) is None, "half of them is not most"
    assert shares.find_common([3, 4]) is None, "a known cluster is no normal topic"


def test_few_words_are_drift_unless_they_come_at_once_and_in_addition():
    assert is_drift(0, -50.0, -50.0), "it has no word that its topic has not"
    assert is_drift(2, -3.0, -3.0)
    assert not is_drift(2, -4.0, -3.0)


def test_many_words_are_drift_only_if_that_is_likely():
    assert is_drift(20, 0.4, 5.4)
    assert not is_drift(20, 0.4, 0.1)
    assert not is_drift(20, -4.5, -0.8)


@pytest.mark.parametrize(
    ("least", "have"), [(1, [True, True, True, False]), (2, [False, True, True, False])]
)
def test_documents_with_several_of_the_words(least, have):
    """In the vocabulary or outside it; how often a word occurs does not matter."""
    known = make_block(np.array([[5, 0, 1], [1, 1, 0], [1, 0, 0], [0, 0, 7]]))
    beside = make_block(np.array([[0, 1], [0, 0], [2, 0], [0, 3]]))
    store = SimpleNamespace(
        block_starts=np.array([0, 4]),
        rows=lambda start, stop: known,
        unseen_rows=lambda start, stop: beside,
    )
    given = (store, np.array([0, 1]), np.array([0]), least)
    assert find_in_block(given, 0).tolist() == have


def test_documents_that_replace_normal_ones_do_not_join_a_known_cluster():
    normal = TopicShares(np.repeat([0, 1], 50), 100)
    # Twenty documents on each topic, as usual, but most on the first seem to be of a cluster.
    usual = TopicShares(np.repeat([0, 1], 20), 40)
    members = np.where(np.arange(40) < 17, 3, -1)
    assert (leave_normal(members, usual, normal) == -1).all()
    # The same with as many more on the first topic.
    more = TopicShares(np.repeat([0, 1], [40, 20]), 60)
    members = np.where(np.arange(60) < 20, 3, -1)
    np.testing.assert_array_equal(leave_normal(members, more, normal), members)
    # A cluster with no topic of its own in common stays.
    mixed = TopicShares(np.tile([0, 1, -1], 10), 30)
    members = np.zeros(30, np.int64)
    np.testing.assert_array_equal(leave_normal(members, mixed, normal), members)


def test_drift_is_a_reason_to_train(tmp_path, client):
    prepare(tmp_path)
    add_day(tmp_path, 1, 0, [])
    run_sweep(tmp_path, client)
    state = read_state(str(tmp_path / "out"))
    (drift,) = state.drift
    drifts = [replace(drift, sweep=n, words=("a",)) for n in range(1, 7)]
    later = replace(state, sweep=6, drift=tuple(drifts))
    assert find_reason(SweepConfig(window=4), later) is None
    assert find_reason(SweepConfig(window=3), later) == (
        "normal topics took up new words in 3 sweeps that it can learn from"
    )
