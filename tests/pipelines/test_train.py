from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from atd_dask.cli.outputs import make_progress
from atd_dask.config.loader import load
from atd_dask.errors import InputError
from atd_dask.estimators.topic_model import ParsimoniousTopicModel
from atd_dask.kernels.passes import LocalPasses
from atd_dask.pipelines.ingest import ingest
from atd_dask.pipelines.train import train
from atd_dask.storage.checkpoints import Checkpoints
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.models import read_digest, read_model
from atd_dask.storage.run_layout import RunLayout
from atd_dask.storage.verification import verify
from tests.clusters import local_client
from tests.pipelines.hold import count_kept, hold_after

COMMAND = [sys.executable, "-c", "from atd_dask.cli.command import main; main()"]

LDAC = """
corpus:
  train: {format: ldac, path: train.ldac, vocabulary: words.txt}
  validation: {format: ldac, path: train.ldac}
  test: {format: ldac, path: test.ldac}
null_model: {topics: {max: 4, min: 2}, restarts: 2}
"""
SYNTHETIC = """
cluster: {local: {workers: 1, threads: 1}}
corpus: {dataset: synthetic}
null_model: {topics: {max: 12, min: 10}, restarts: 5}
"""


@pytest.fixture(scope="module")
def client():
    with local_client(1) as made:
        yield made


def make_config(folder, text, *overrides):
    conf = folder / "conf.yaml"
    conf.write_text(text)
    return load(conf, [f"output={folder / 'out'}", *overrides])


def run_stage(stage, config, client, **options):
    return stage(config, client, make_progress(quiet=True), **options)


def write_documents(folder, n_docs=40):
    rng = random.Random(2)
    (folder / "words.txt").write_text("".join(f"word{n}\n" for n in range(20)))
    for part in ("train", "test"):
        lines = []
        for d in range(n_docs):
            own = {rng.randrange(10) + 10 * (d % 2): rng.randrange(2, 9) for _ in range(6)}
            lines.append(" ".join([str(len(own)), *(f"{n}:{c}" for n, c in own.items())]))
        (folder / f"{part}.ldac").write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture(scope="module")
def folder(tmp_path_factory, client):
    """A small ingested corpus."""
    made = tmp_path_factory.mktemp("train")
    write_documents(made)
    run_stage(ingest, make_config(made, LDAC), client)
    return made


@pytest.fixture
def make(folder, client):
    def run(*overrides, fresh=False):
        return run_stage(train, make_config(folder, LDAC, *overrides), client, fresh=fresh)

    return run


@pytest.fixture
def model(folder):
    return Path(RunLayout(make_config(folder, LDAC).output).model)


def test_the_model_is_that_of_the_estimator(folder, make, model):
    summary = make()
    made = read_model(model)
    store = CorpusStore.open(RunLayout(make_config(folder, LDAC).output).corpus("train"))
    estimator = ParsimoniousTopicModel((2, 4), restarts=2).fit(store)
    assert made.table.probabilities.tobytes() == estimator.model_.table.probabilities.tobytes()
    assert made.restarts == estimator.order_search_
    assert made.vocabulary == store.vocabulary
    assert made.corpus == store.digest
    orders = {"max": 4, "min": 2, "step": 1, "widen": True, "limit": 200}
    assert made.settings["null_model"]["topics"] == orders
    assert summary.to_json() == {
        "path": str(model),
        "digest": read_digest(model),
        "n_topics": estimator.n_topics_,
        "bic": estimator.bic_,
        "topics_per_document": made.record.topics_per_document,
        "salient_words_per_topic": made.record.words_per_topic,
    }
    assert verify(model) == []
    loaded = ParsimoniousTopicModel.load(model)
    assert loaded.transform(store).tobytes() == estimator.transform(store).tobytes()


def test_a_model_of_the_same_store_and_settings_is_left_as_it_is(make, model):
    first = make()
    before = model.stat().st_ino
    assert make("detection.seeds=7", "name=other") == first
    assert model.stat().st_ino == before
    assert make(fresh=True) == first
    assert model.stat().st_ino != before


@pytest.mark.parametrize(
    "override",
    [
        "seed=2",
        "null_model.topics.max=5",
        "null_model.topics.min=3",
        "null_model.restarts=1",
        "null_model.tolerance=0.01",
        "null_model.max_iterations=3",
        "compatibility=authors",
    ],
)
def test_other_settings_train_again(make, model, override):
    first = make()
    other = make(override)
    assert other.digest == read_digest(model) != first.digest


def test_another_corpus_trains_again(tmp_path, client, make):
    write_documents(tmp_path, n_docs=41)
    config = make_config(tmp_path, LDAC)
    run_stage(ingest, config, client)
    assert run_stage(train, config, client).digest != make().digest
    write_documents(tmp_path)
    run_stage(ingest, config, client)
    assert run_stage(train, config, client).digest == make().digest


@pytest.mark.parametrize("damage", ["gone", "manifest"])
def test_a_damaged_model_is_made_again(make, model, damage):
    first = make()
    if damage == "gone":
        shutil.rmtree(model)
    else:
        (model / "manifest.json").write_bytes(b"{")
    assert make() == first
    assert verify(model) == []


def test_checkpoints_of_other_settings_are_of_no_use(folder, make, model):
    first = make()
    shutil.rmtree(model)
    pieces = folder / "out" / "checkpoints" / "train"
    Checkpoints(str(pieces), "another key").save("restart-0", {}, {})
    assert make() == first
    assert not pieces.exists()


def test_documents_without_words_are_said(tmp_path, client):
    (tmp_path / "words.txt").write_text("a\n")
    (tmp_path / "train.ldac").write_text("0\n0\n")
    (tmp_path / "test.ldac").write_text("1 0:1\n")
    config = make_config(tmp_path, LDAC)
    run_stage(ingest, config, client)
    message = r"the training documents must have words, but .*train\.zarr has none"
    with pytest.raises(InputError, match=message):
        run_stage(train, config, client)


def kill_training(arguments, file, n_checkpoints, delay):
    """Start the command, let it write some checkpoints, and kill it `delay` seconds later; it is
    held after the next one."""
    process = subprocess.Popen(
        [*COMMAND, "train", *arguments],
        env=os.environ | hold_after(file, n_checkpoints + 1),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        limit = time.monotonic() + 240
        while count_kept(file) < n_checkpoints:
            assert process.poll() is None
            assert time.monotonic() < limit
            time.sleep(0.01)
        time.sleep(delay)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    finally:
        # Its workers end by themselves when it is gone, but not at once.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def test_a_training_that_is_killed_again_and_again_ends_with_the_same_model(
    tmp_path, client, monkeypatch
):
    fit, n_fits = LocalPasses.fit, []

    def count(self, *arguments):
        n_fits[-1] += 1
        return fit(self, *arguments)

    monkeypatch.setattr(LocalPasses, "fit", count)
    config = make_config(tmp_path, SYNTHETIC)
    run_stage(ingest, config, client)
    n_fits.append(0)
    undisturbed = run_stage(train, config, client)
    model = Path(RunLayout(config.output).model)
    shutil.rmtree(model)
    folder = tmp_path / "out" / "checkpoints" / "train"
    arguments = [str(tmp_path / "conf.yaml"), "--output", config.output]
    moments = random.Random(5)
    for n_checkpoints in (3, 5, 4):
        kill_training(arguments, tmp_path / "hold", n_checkpoints, moments.uniform(0, 0.2))
    assert list(folder.glob("restart-*.checkpoint"))
    n_fits.append(0)
    run_stage(train, config, client)
    assert 0 < n_fits[1] < n_fits[0]
    assert read_digest(model) == undisturbed.digest
    assert verify(model) == []
    assert not folder.exists()
