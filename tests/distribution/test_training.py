"""The same bytes for every cluster, and after every failure."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

from atd_dask.distribution import training as driver
from atd_dask.distribution.training import Iteration, Training, train_restarts
from atd_dask.kernels.blocks import MemoryCorpus
from atd_dask.kernels.training import Convergence, OrderRange, OrderRecord
from atd_dask.storage.checkpoints import Checkpoints
from atd_dask.storage.searches import SearchKeeper
from tests.clusters import local_client
from tests.kernels.strategies import make_block

ORDERS = OrderRange(max=6, min=3)


def make_corpus(n_docs=400, n_words=120, n_topics=5):
    rng = np.random.default_rng(7)
    topics = rng.dirichlet(np.full(n_words, 0.05), n_topics)
    counts = np.stack(
        [rng.multinomial(60, topics[d % n_topics] * 0.8 + 0.2 / n_words) for d in range(n_docs)]
    )
    return SmallBlocks(make_block(counts), n_words)


class SmallBlocks(MemoryCorpus):
    """Several blocks although the corpus is small."""

    @property
    def block_starts(self):
        return np.append(np.arange(0, self.n_docs, 64), self.n_docs)


def digest(searches):
    return (
        b"".join(
            array.tobytes()
            for state in searches
            for array in (state.best.indptr, state.best.topics, state.best.probabilities)
        )
        + repr([state.records for state in searches]).encode()
    )


@pytest.fixture(scope="module")
def training():
    return Training(make_corpus(), ORDERS, Convergence(), seed=3)


@pytest.fixture(scope="module")
def expected(training):
    return digest(train_restarts(training, restarts=2))


@pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])
@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("whole", [True, False], ids=["restarts", "blocks"])
def test_every_cluster_gives_the_same_bytes(
    training, expected, workers, processes, whole, monkeypatch
):
    monkeypatch.setattr(driver, "SMALL_ENTRIES", 2**22 if whole else 0)
    with local_client(workers, processes=processes) as client:
        assert digest(train_restarts(training, 2, client)) == expected


def test_orders_and_iterations_are_told(training, expected, monkeypatch):
    monkeypatch.setattr(driver, "SECONDS_BETWEEN", 0.0)
    heard = []
    searches = train_restarts(training, 2, tell=lambda *told: heard.append(told))
    assert digest(searches) == expected
    for restart, search in enumerate(searches):
        told = [done for number, done in heard if number == restart]
        orders = [done for done in told if isinstance(done, OrderRecord)]
        # An order that is started again has been told.
        assert tuple(orders) == search.records[: len({done.n_topics for done in orders})]
        assert {done.n_topics for done in search.records} == {done.n_topics for done in orders}
        # The last iteration of an order is told as the order.
        assert [done.iteration for done in told if isinstance(done, Iteration)] == [
            iteration for record in search.records for iteration in range(1, record.iterations)
        ]
    far = []
    with local_client(1) as client:
        train_restarts(training, 2, client, tell=lambda *told: far.append(told))
    # Reports of workers may come late, when the training is over.
    assert any(isinstance(done, Iteration) for _, done in far)
    assert all(told in heard for told in far)


def test_a_killed_worker_changes_nothing(training, expected, monkeypatch):
    monkeypatch.setattr(driver, "SMALL_ENTRIES", 0)
    with local_client(2, processes=True) as client:
        pids = client.run(os.getpid)
        killed = []

        def kill(states=[]):  # noqa: B006
            states.append(1)
            if len(states) in (5, 20) and len(killed) < len(pids):
                pid = sorted(pids.values())[len(killed)]
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

        class Killer:
            def load(self, restart, shared):
                return None

            def keep(self, restart):
                return lambda state: kill()

        assert digest(train_restarts(training, 2, client, Killer())) == expected
        assert len(killed) == 2


class InterruptedSearchError(Exception):
    pass


@pytest.mark.parametrize("moment", [1, 7, 12, 25])
def test_an_interrupted_search_goes_on_from_its_checkpoint(tmp_path, training, expected, moment):
    keeper = SearchKeeper(Checkpoints(str(tmp_path), "key"), seconds_between=0)
    states = []

    class Interrupting(SearchKeeper):
        def keep(self, restart):
            inner = super().keep(restart)

            def keep(state):
                inner(state)
                states.append(state)
                if len(states) == moment:
                    raise InterruptedSearchError

            return keep

    with pytest.raises(InterruptedSearchError):
        train_restarts(training, 2, keeper=Interrupting(keeper.checkpoints, seconds_between=0))
    assert keeper.load(0, training_shared(training)) is not None
    assert digest(train_restarts(training, 2, keeper=keeper)) == expected
    again = []

    class Counting(SearchKeeper):
        def keep(self, restart):
            return again.append

    assert digest(train_restarts(training, 2, keeper=Counting(keeper.checkpoints))) == expected
    assert again == []


def training_shared(training):
    counts = np.zeros(training.corpus.n_words, np.int64)
    np.add.at(counts, training.corpus.whole.terms, training.corpus.whole.counts)
    return counts / counts.sum()
