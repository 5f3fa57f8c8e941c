"""A batch that is cut into shards gives the bytes of one that is not."""

from __future__ import annotations

import os
import pickle
import signal

import numpy as np
import pytest
from distributed import Future

from atd_dask.distribution import cluster_search, replicates, shards, vector_batches
from atd_dask.distribution.detection import detect
from atd_dask.distribution.engine.runner import Runner
from atd_dask.distribution.shards import NewTopic, ShardedBatch
from atd_dask.documents import CountBatch
from atd_dask.kernels import next_document
from atd_dask.kernels.blocks import MemoryCorpus
from atd_dask.kernels.cluster_growth import BicRule
from atd_dask.storage.checkpoints import Checkpoints
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.corpus_writer import CorpusWriter
from atd_dask.storage.detection_checkpoints import DetectionCheckpointer
from tests.clusters import local_client, wait_for
from tests.distribution.test_detection import (
    N_WORDS,
    PLANTED,
    InterruptedDetectionError,
    digest,
    problem,  # noqa: F401
    rules,
)
from tests.kernels.strategies import make_block


@pytest.fixture(scope="module")
def stores(problem, tmp_path_factory):  # noqa: F811
    """The problem in stores of small blocks."""
    table, *corpora = problem
    folder = tmp_path_factory.mktemp("stores")
    words = [f"w{number}" for number in range(N_WORDS)]
    names = ("train", "validation", "test")
    for name, corpus in zip(names, corpora, strict=True):
        ids = [f"{name}-{row}" for row in range(corpus.n_docs)]
        with CorpusWriter(folder / name, words, block_documents=9) as writer:
            writer.append(CountBatch(ids, [()] * len(ids), *corpus.whole.arrays))
    return table, *(CorpusStore.open(folder / name) for name in names)


def run(stores, client=None, checkpointer=None, **changes):
    table, train, validation, test = stores
    corpora = {"train": train, "validation": validation}
    return detect(table, test, corpora, rules(**changes), 1, client, checkpointer)


@pytest.fixture(scope="module")
def expected(stores):
    found = run(stores)
    assert found
    return digest(found)


@pytest.fixture
def cut(monkeypatch):
    """Every batch counts as large."""
    monkeypatch.setattr(vector_batches, "SMALL_ENTRIES", 0)
    monkeypatch.setattr(shards, "BLOCKS_PER_SHARD", 2)
    monkeypatch.setattr(replicates, "DOCUMENTS_AT_ONCE", 1200)


@pytest.mark.parametrize(
    ("least", "most", "n_normal"), [(2**21, 2**24, 120), (1, 2**24, 40), (1, 70, 10)]
)
def test_a_batch_is_compared_with_as_many_normal_documents(monkeypatch, least, most, n_normal):
    """Forty documents of the batch, and as many of 120 normal ones, within bounds."""
    monkeypatch.setattr(vector_batches, "LEAST_NORMAL_ENTRIES", least)
    monkeypatch.setattr(vector_batches, "MOST_NORMAL_ENTRIES", most)
    batch, normal = (MemoryCorpus(make_block(np.ones((n, 7), int)), 7) for n in (40, 120))
    with vector_batches.open_vectors(Runner(), batch, normal, True) as vectors:
        assert vectors.normal.n_docs == n_normal


def test_the_client_sends_neither_vectors_nor_pools(stores, monkeypatch):
    """Workers read documents from the store, once for all rounds; only donors that were drawn are
    sent. So nothing that is sent has the size of the batch or of the pool."""
    few = {"replicates": 3, "searches": 1, "max_clusters": 1}
    alone = digest(run(stores, **few))
    sent = {}
    with local_client(2) as client:
        submit, submit_all = client.submit, client.map

        def is_there(one):
            """Only handles of what is on workers."""
            return all(isinstance(it, Future) for it in (one if isinstance(one, list) else [one]))

        def note(step, arguments):
            size = len(pickle.dumps([one for one in arguments if not is_there(one)]))
            sent.setdefault(step.__name__, []).append(size)

        def note_one(step, *arguments, **options):
            note(step, arguments)
            return submit(step, *arguments, **options)

        def note_all(step, *columns, **options):
            for arguments in zip(*columns, strict=True):
                note(step, arguments)
            return submit_all(step, *columns, **options)

        monkeypatch.setattr(client, "submit", note_one)
        monkeypatch.setattr(client, "map", note_all)
        assert digest(run(stores, client, **few)) == alone
    assert len(sent["make_vectors"]) == 1
    assert "score_replicates" not in sent
    _, _, validation, test = stores
    assert max(sent["grow_on_worker"]) < test.n_entries
    assert sum(sent["score_drawn"]) < 8 * (test.n_entries + validation.n_entries)


def test_the_mixtures_of_a_batch_are_made_for_growth_alone(stores, monkeypatch):
    """The contrast search has no use for them."""
    made = []
    original = next_document.start_limits
    monkeypatch.setattr(
        next_document, "start_limits", lambda *given: made.append(1) or original(*given)
    )
    few = {"replicates": 100, "searches": 0, "max_clusters": 1, "seeds": 3}
    run(stores, **few)
    assert not made
    run(stores, settle=False, **few)
    assert made


def support_of(found):
    return [
        None if cluster.calibration_support is None else cluster.calibration_support.tolist()
        for cluster in found
    ]


@pytest.mark.parametrize(("workers", "threads"), [(0, 0), (1, 2), (2, 1)])
def test_every_cluster_gives_the_bytes_of_a_batch_in_one_piece(
    stores, expected, cut, workers, threads
):
    if workers == 0:
        assert digest(run(stores)) == expected
        return
    with local_client(workers, threads, processes=workers > 1) as client:
        assert digest(run(stores, client)) == expected
        wait_for(lambda: not client.futures)  # the client lets go of them in its own thread


@pytest.mark.parametrize(
    "changes",
    [
        {"pool": "validation"},
        {"pool": "train", "donors": 1},
        {"settle": False, "stop": BicRule(), "remember": False, "max_clusters": 2},
        {"settle": False, "donors": 1, "seeds": 1},
        pytest.param({"authors": True}, marks=pytest.mark.long),
        pytest.param({"lda": True, "max_size": 12}, marks=pytest.mark.long),
    ],
    ids=lambda changes: ",".join(changes),
)
def test_every_rule_gives_the_bytes_of_a_batch_in_one_piece(stores, changes, request):
    few = {"replicates": 100, "searches": 1, "max_clusters": 1, "seeds": 3}
    changes = few | changes
    whole = run(stores, **changes)
    request.getfixturevalue("cut")
    found = run(stores, **changes)
    assert digest(found) == digest(whole)
    assert support_of(found) == support_of(whole)
    assert [c.only_donor for c in found] == [c.only_donor for c in whole]


@pytest.mark.parametrize(
    "moment",
    [
        ("rank_unexpected_in_shard", 2),
        ("rank_in_shard", 3),
        ("rank_in_shard", 100),
        ("take_from_shard", 9),
        ("score_drawn", 2),
    ],
    ids=["starts", "neighbours", "rounds", "documents", "B2"],
)
def test_a_killed_worker_changes_nothing(stores, expected, cut, moment, monkeypatch):
    with local_client(2, processes=True) as client:
        pid = min(client.run(os.getpid).values())
        submit = client.submit
        asked = {}

        def kill_after_submitting(step, *arguments, **options):
            future = submit(step, *arguments, **options)
            asked[step.__name__] = asked.get(step.__name__, 0) + 1
            if (step.__name__, asked[step.__name__]) == moment:
                os.kill(pid, signal.SIGKILL)
            return future

        monkeypatch.setattr(client, "submit", kill_after_submitting)
        assert digest(run(stores, client, max_clusters=1, searches=0))[:1] == expected[:1]
        assert asked[moment[0]] >= moment[1]


def test_a_growth_goes_on_from_the_last_document_that_joined(tmp_path, stores, cut, monkeypatch):
    alone = {"settle": False, "searches": 0, "max_clusters": 1}
    expected = digest(run(stores, **alone))
    checkpoints = Checkpoints(str(tmp_path), "key")
    grown = []

    class Interrupting(DetectionCheckpointer):
        def save_growth(self, index, growth):
            super().save_growth(index, growth)
            grown.append(growth)
            if len(growth.steps) == 9:
                raise InterruptedDetectionError("interrupted by the test")

    with pytest.raises(InterruptedDetectionError, match="interrupted by the test"):
        run(stores, checkpointer=Interrupting(checkpoints), **alone)
    assert [len(growth.steps) for growth in grown] == list(range(10))
    monkeypatch.setattr(cluster_search.ShardedClusterSearch, "_preview", None)
    again = []

    class Watching(DetectionCheckpointer):
        def save_growth(self, index, growth):
            super().save_growth(index, growth)
            again.append(growth)

    checkpointer = Watching(checkpoints)
    assert digest(run(stores, checkpointer=checkpointer, **alone)) == expected
    assert min(len(growth.steps) for growth in again) == 9


def test_a_shard_says_how_large_it_is_and_does_not_change(stores):
    """Dask moves objects that it takes for small, and may copy them while they are used."""
    table, _, _, test = stores
    fitter = rules().fitter(table)
    shard = shards.fit_shard((test, fitter), (0, test.n_docs))
    assert shard.__sizeof__() > 16 * test.n_entries
    mixtures = shard.batch._mixtures
    before = [array.copy() for array in (mixtures.weights, mixtures.reached)]
    topic = NewTopic.of(shard.batch.train(np.array([60, 61])))
    question = shards.Question(topic, np.array([60, 61]), -np.inf)
    shards.next_in_shard(shard, [question])
    shards.gains_in_shard(shard, question._replace(least=0.0))
    for was, array in zip(before, (mixtures.weights, mixtures.reached), strict=True):
        np.testing.assert_array_equal(array, was)


def test_a_gain_that_is_there_to_be_had_spares_fits(stores, cut):
    """Shards that know nothing of each other find the same documents, with more fits."""
    table, _, _, test = stores
    batch = ShardedBatch(Runner(), test, rules().fitter(table))
    fitted = {True: 0, False: 0}
    documents = [60]
    for _ in range(8):
        outside = np.ones(len(batch), bool)
        outside[documents] = False
        found = {}
        for told in (True, False):
            before = sum(shard.batch.n_fitted for shard in batch._shards.results)
            with pytest.MonkeyPatch.context() as patch:
                if not told:
                    patch.setattr(batch, "_gains_to_be_had", lambda topics, outside: [-np.inf])
                topic = batch.train(np.array(documents))
                (found[told],) = batch.next_documents([topic], [outside])
            after = sum(shard.batch.n_fitted for shard in batch._shards.results)
            fitted[told] += after - before
        assert found[True] == found[False]
        documents.append(found[True].document)
    assert set(documents) <= set(PLANTED)
    assert fitted[True] < fitted[False]


def test_documents_as_they_were_in_one_piece(stores, cut):
    table, _, _, test = stores
    batch = ShardedBatch(Runner(), test, rules().fitter(table))
    whole = test.rows(0, test.n_docs)
    for rows in ([70, 3, 3, 44, 0, 79], [3, 4]):
        taken = batch.take(np.array(rows))
        for array, same in zip(taken.block.arrays, whole.take(np.array(rows)).arrays, strict=True):
            np.testing.assert_array_equal(array, same)
    fetched = batch.fetch(np.array([2, 30, 31]))
    np.testing.assert_array_equal(fetched.fit.lengths, [60, 60, 60])
    np.testing.assert_array_equal(fetched.block.terms, whole.take(np.array([2, 30, 31])).terms)
