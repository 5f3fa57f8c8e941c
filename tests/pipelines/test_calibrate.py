"""What a set-up would find, measured on its own normal documents."""

from __future__ import annotations

import json

import numpy as np
import pytest

from atd_dask.cli.outputs import make_progress
from atd_dask.config.loader import load
from atd_dask.errors import InputError
from atd_dask.evaluation import trials
from atd_dask.evaluation.rates import Rate
from atd_dask.evaluation.trials import FoundRate, SetUpFigures, Trial, say_figures
from atd_dask.kernels.model import Block
from atd_dask.pipelines import calibrate as pipeline
from tests.clusters import local_client

SUBJECTS = 8
CONFIG = """
name: calibrated
cluster: {local: {workers: 1, threads: 1}}
corpus:
  train: {format: jsonl, path: normal.jsonl, labels_field: subject}
  test: {format: jsonl, path: nowhere.jsonl}
  text: {stop_words: none, stemmer: none}
null_model: {topics: 8}
detection: {seeds: 20, significance: {searches: 19, level: 0.05}}
"""


@pytest.fixture(scope="module")
def client():
    with local_client(1) as made:
        yield made


def write_documents(folder, labels=True):
    chance = np.random.default_rng(1)
    common = [f"c{a}{b}" for a in "abcdefgh" for b in "klmnopqr"]
    lines = []
    for n in range(480):
        subject = n % SUBJECTS
        own = [f"s{chr(97 + subject)}{b}" for b in "abcdefghij"]
        words = [*chance.choice(common, 20), *chance.choice(own, 20)]
        one = {"id": str(n), "text": " ".join(words)}
        if labels:
            one["subject"] = [f"subject {chr(97 + subject)}"]
        lines.append(json.dumps(one))
    (folder / "normal.jsonl").write_text("\n".join(lines))
    (folder / "nowhere.jsonl").write_text(lines[0])
    (folder / "conf.yaml").write_text(
        CONFIG.replace(", labels_field: subject", "" if not labels else ", labels_field: subject")
    )
    return load(folder / "conf.yaml", [f"output={folder / 'out'}"])


def run(config, client, n_nothing=24, n_planted=2):
    return pipeline.calibrate(config, 90, n_nothing, n_planted, client, make_progress(quiet=True))


def test_what_a_set_up_finds(tmp_path, client, monkeypatch):
    config = write_documents(tmp_path)
    figures = run(config, client)
    assert (figures.batch, figures.labelled) == (90, True)
    assert figures.false_alarms.of == 24
    cells = {(one.share, one.size): one.rate for one in figures.found}
    assert set(cells) == {(share, size) for share in trials.SHARES for size in trials.SIZES}
    # Half of the words of a new subject are in no other document.
    assert cells[1.0, 20].happened == 2
    assert cells[1.0, 40].happened == 2
    assert all(rate.low <= rate.share <= rate.high for rate in cells.values())
    kept = json.loads((tmp_path / "out/calibration/calibration.json").read_text())
    assert SetUpFigures.from_json(kept) == figures
    page = (tmp_path / "out/calibration/calibration.html").read_text()
    assert page.count("<svg") == 3
    assert say_figures(figures) in page

    # Again, nothing is searched, and the bytes are the same.
    def refuse(*_):
        raise AssertionError("a trial was done again")

    monkeypatch.setattr("atd_dask.stages.set_up_trials.TrialWork.compute", refuse)
    assert run(config, client) == figures
    assert (tmp_path / "out/calibration/calibration.html").read_text() == page


def test_topics_of_the_null_model_where_there_are_no_labels(tmp_path, client):
    figures = run(write_documents(tmp_path, labels=False), client, n_planted=1)
    assert not figures.labelled
    assert all(topic.startswith("topic ") for topic in figures.topics)


def test_what_cannot_be_measured_is_refused(tmp_path, client):
    config = write_documents(tmp_path)
    with pytest.raises(
        InputError, match=r"more than detection.significance.searches, got 5 and 19"
    ):
        run(config, client, n_nothing=5)
    paper = load(tmp_path / "conf.yaml", ["detection.rules=paper"])
    with pytest.raises(InputError, match=r"detection.settle must be true"):
        run(paper, client)


def test_documents_of_a_held_out_topic_are_nowhere_else():
    n_words = 6
    counts = np.tile(np.array([3, 3, 0, 0, 0, 0]), (60, 1))
    counts[:10] = [0, 0, 4, 4, 0, 0]
    documents, words = np.nonzero(counts)
    ends = np.searchsorted(documents, np.arange(61))
    block = Block(ends, words.astype(np.int32), counts[documents, words].astype(np.int32))
    for share in trials.SHARES:
        trial = Trial(0, "key", "topic", 5, share)
        laid = trials.lay_out(block, n_words, np.arange(10), trial, 20, seed=1)
        assert len(laid.batch) == 20
        assert not set(laid.normal.terms.tolist()) & {2, 3}
        planted = laid.batch.take(np.arange(15, 20))
        own = np.isin(planted.terms, [2, 3])
        assert planted.counts[own].sum() / planted.counts.sum() == pytest.approx(share, abs=0.05)
        assert not np.isin(laid.batch.take(np.arange(15)).terms, [2, 3]).any()


def test_the_sentence_names_the_smallest_group_that_is_mostly_found():
    def found(size, happened):
        return FoundRate(
            size=size, share=1.0, rate=Rate(happened=happened, of=20, low=0.0, high=1.0)
        )

    figures = SetUpFigures(
        format=trials.FORMAT,
        name="x",
        seed=1,
        batch=2000,
        normal=9000,
        level=0.01,
        searches=39,
        topics=("a",),
        labelled=True,
        false_alarms=Rate(happened=1, of=200, low=0.0, high=0.03),
        found=(found(5, 2), found(10, 12), found(20, 18), found(40, 20)),
    )
    assert say_figures(figures) == (
        "In batches of 2,000 documents a group of 20 on a new subject is found 18 times in 20, and"
        " a batch with nothing in it raised an alarm once in 200."
    )
