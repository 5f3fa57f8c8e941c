"""The same bytes on every cluster, and after every failure."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from atd_dask.distribution import training as driver
from atd_dask.distribution.training import Iteration, Training, Widening, train_restarts
from atd_dask.kernels.blocks import MemoryCorpus
from atd_dask.kernels.training import (
    SPLITS,
    Convergence,
    OrderRange,
    OrderRecord,
)
from atd_dask.storage.checkpoints import Checkpoints
from atd_dask.storage.order_checkpoints import OrderCheckpointer, SavedProportions
from tests.clusters import local_client, wait_for
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
    """Several blocks, although the corpus is small."""

    @property
    def block_starts(self):
        return np.append(np.arange(0, self.n_docs, 40), self.n_docs)


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


@pytest.fixture
def used(monkeypatch):
    """The numbers of threads that restarts on a worker have used."""
    counts = set()

    class Watched(driver.Threads):
        def map(self, step, pieces):
            counts.add(self.count())
            return super().map(step, pieces)

    monkeypatch.setattr(driver, "Threads", Watched)
    return counts


@pytest.mark.parametrize("restarts", [1, 2])
def test_a_restart_on_several_threads_gives_the_same_bytes(training, restarts, used, monkeypatch):
    alone = digest(train_restarts(training, restarts))
    all_have_started = threading.Barrier(restarts)

    class InTurn(driver.Threads):
        """Restarts that start together; one waits until the other has ended."""

        def __enter__(self):
            self.is_last = all_have_started.wait(60) == 0
            return super().__enter__()

        def map(self, step, pieces):
            if self.is_last:
                wait_for(lambda: self.count() == 3)
            return super().map(step, pieces)

    with local_client(1, threads=3) as client:
        monkeypatch.setattr(driver, "Threads", InTurn)
        assert digest(train_restarts(training, restarts, client)) == alone
    assert 3 in used, "one of them is the last, and has all threads"
    assert (1 in used) == (restarts == 2), "while there are two, each has one"
    assert not [one for one in threading.enumerate() if one.name.startswith("atd-dask-pass")]


@pytest.mark.parametrize(("entries", "n_threads"), [(1, 3), (10**9, 1)])
def test_a_restart_uses_the_threads_of_idle_workers_on_this_machine(
    training, entries, n_threads, used, monkeypatch
):
    alone = digest(train_restarts(training, 1))
    monkeypatch.setattr(driver, "ENTRIES_OF_A_THREAD", entries)
    with local_client(3) as client:
        assert digest(train_restarts(training, 1, client)) == alone
    assert used == {n_threads}


def test_orders_and_iterations_are_told(training, expected, monkeypatch):
    monkeypatch.setattr(driver, "SECONDS_BETWEEN", 0.0)
    heard = []
    searches = train_restarts(training, 2, on_progress=lambda *told: heard.append(told))
    assert digest(searches) == expected
    for restart, search in enumerate(searches):
        told = [done for number, done in heard if number == restart]
        orders = [done for done in told if isinstance(done, OrderRecord)]
        # An order that is started again has been told.
        firsts = {done.n_topics: done for done in reversed(search.records)}
        assert sorted(orders, key=search.records.index) == orders
        assert {done.n_topics: done for done in orders} == firsts
        assert len(orders) == len(firsts)
        # The last iteration of an order is told as the order.
        assert [done.iteration for done in told if isinstance(done, Iteration)] == [
            iteration for record in search.records for iteration in range(1, record.iterations)
        ]
    far = []
    with local_client(1) as client:
        train_restarts(training, 2, client, on_progress=lambda *told: far.append(told))
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


@pytest.fixture(scope="module")
def narrow():
    """A dozen topics, while the first range has at most five."""
    corpus = make_corpus(n_docs=360, n_words=200, n_topics=12)
    return Training(corpus, OrderRange(max=5, min=4, limit=200), Convergence(), seed=3)


@pytest.fixture(scope="module")
def widened(narrow):
    return train_restarts(narrow, 1)


def best_order(search):
    return min(search.records, key=lambda record: record.bic).n_topics


def test_a_range_is_widened_until_the_best_order_is_inside(narrow, widened):
    assert 11 <= best_order(widened[0]) <= 13
    fixed = replace(narrow, orders=replace(narrow.orders, limit=None))
    records = train_restarts(fixed, 1)[0].records
    assert {record.n_topics for record in records} == {5, 4}
    # What was tried at first is part of what was tried.
    assert widened[0].records[:2] == records[:2]


@pytest.mark.parametrize(("n_docs", "limit", "most"), [(360, 8, 8), (84, 200, 8), (36, 200, 5)])
def test_widening_has_a_bound(n_docs, limit, most):
    corpus = make_corpus(n_docs=n_docs, n_words=200, n_topics=12)
    orders = OrderRange(max=5, min=4, limit=limit)
    search = train_restarts(Training(corpus, orders, Convergence(), seed=3), 1)[0]
    assert max(record.n_topics for record in search.records) == most


def test_a_range_is_widened_below_its_lower_end():
    training = Training(make_corpus(n_topics=3), OrderRange(9, 8, limit=200), Convergence(), seed=3)
    search = train_restarts(training, 1)[0]
    assert best_order(search) == 3
    assert min(record.n_topics for record in search.records) == 1
    assert max(record.n_topics for record in search.records) <= 9


def test_a_fixed_range_of_one_order_without_limit_stays(narrow):
    search = train_restarts(replace(narrow, orders=OrderRange(5, 5)), 1)[0]
    assert {record.n_topics for record in search.records} == {5}


@pytest.mark.parametrize("whole", [True, False], ids=["restarts", "blocks"])
def test_widening_gives_the_same_bytes_on_a_cluster(narrow, widened, whole, monkeypatch):
    monkeypatch.setattr(driver, "SMALL_ENTRIES", 2**22 if whole else 0)
    with local_client(2) as client:
        assert digest(train_restarts(narrow, 1, client)) == digest(widened)


def test_widening_is_told(narrow, widened):
    heard = []
    train_restarts(narrow, 1, on_progress=lambda restart, done: heard.append(done))
    told = [done for done in heard if isinstance(done, Widening)]
    assert [(one.tried, one.most) for one in told] == [(5, 10), (10, 20)]
    assert told[0].best in (4, 5)
    orders = [done.n_topics for done in heard if isinstance(done, OrderRecord)]
    assert sorted(orders) == sorted({record.n_topics for record in widened[0].records})


@pytest.fixture(scope="module")
def mixed():
    """Documents with several topics each, which a search does not find at once."""
    rng = np.random.default_rng(1)
    topics = rng.dirichlet(np.full(200, 0.05), 12)
    mixtures = rng.dirichlet(np.full(12, 0.1), 400) @ topics * 0.8 + 0.2 / 200
    counts = np.stack([rng.multinomial(60, mixture / mixture.sum()) for mixture in mixtures])
    corpus = SmallBlocks(make_block(counts), 200)
    return Training(corpus, OrderRange(16, 4), Convergence(), seed=3)


@pytest.fixture(scope="module")
def split(mixed):
    searches = train_restarts(mixed, 1)
    assert searches[0].n_splits == SPLITS
    return searches


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("whole", [True, False], ids=["restarts", "blocks"])
def test_splits_give_the_same_bytes_on_a_cluster(mixed, split, workers, whole, monkeypatch):
    monkeypatch.setattr(driver, "SMALL_ENTRIES", 2**22 if whole else 0)
    with local_client(workers) as client:
        assert digest(train_restarts(mixed, 1, client)) == digest(split)


def test_there_are_never_more_topics_than_the_range_allows(mixed, split):
    n_topics = best_order(split[0])
    tight = replace(mixed, orders=OrderRange(n_topics, n_topics))
    (search,) = train_restarts(tight, 1)
    assert search.n_splits == 0
    assert {record.n_topics for record in search.records} == {n_topics}


@pytest.mark.parametrize("seed", [3, 8])
def test_a_split_that_loses_more_topics_than_were_new_is_given_up(seed):
    """There are fewer topics in the documents than in the range, which is fixed."""
    training = Training(make_corpus(160, 90, 8), OrderRange(15, 14), Convergence(), seed=seed)
    (search,) = train_restarts(training, 1)
    assert search.n_splits == SPLITS
    # Some of the first topics may be no document's best.
    first = search.records[0].n_topics
    assert min(record.n_topics for record in search.records) == first


class InterruptedSearchError(Exception):
    pass


@pytest.mark.parametrize("moment", [1, 7, 12, 25])
def test_an_interrupted_search_goes_on_from_its_checkpoint(tmp_path, training, expected, moment):
    check_resumption(tmp_path, training, 2, expected, lambda states: len(states) == moment)


@pytest.mark.parametrize("n_orders", [0, 1, 3])
def test_an_interrupted_widening_goes_on_from_its_checkpoint(tmp_path, narrow, widened, n_orders):
    def is_there(states):
        state = states[-1]
        return state.wider is not None and len(state.records) == state.n_before + n_orders

    check_resumption(tmp_path, narrow, 1, digest(widened), is_there)


@pytest.mark.parametrize(("n_splits", "iteration"), [(1, -2), (2, -1), (2, 1), (SPLITS, 0)])
def test_an_interrupted_split_goes_on_from_its_checkpoint(
    tmp_path, mixed, split, n_splits, iteration
):
    def is_there(states):
        return (states[-1].n_splits, states[-1].iteration) == (n_splits, iteration)

    check_resumption(tmp_path, mixed, 1, digest(split), is_there)


def test_an_interrupted_split_in_blocks_goes_on_from_its_checkpoint(
    tmp_path, mixed, split, monkeypatch
):
    monkeypatch.setattr(driver, "SMALL_ENTRIES", 0)

    def is_there(states):
        return (states[-1].n_splits, states[-1].iteration) == (2, 1)

    with local_client(2) as client:
        check_resumption(tmp_path, mixed, 1, digest(split), is_there, client)


def training_shared(training):
    counts = np.zeros(training.corpus.n_words, np.int64)
    np.add.at(counts, training.corpus.whole.terms, training.corpus.whole.counts)
    return counts / counts.sum()


def check_resumption(folder, training, restarts, expected, is_moment, client=None):
    """A selection that is interrupted at some moment and resumed ends with the same bytes."""
    checkpointer = OrderCheckpointer(Checkpoints(str(folder), "key"), seconds_between=0)
    states = []

    class Interrupting(OrderCheckpointer):
        def keep(self, restart):
            inner = super().keep(restart)

            def keep(state):
                inner(state)
                states.append(state)
                if is_moment(states):
                    raise InterruptedSearchError("interrupted by the test")

            return keep

    broken = Interrupting(checkpointer.checkpoints, seconds_between=0)
    with pytest.raises(InterruptedSearchError, match="interrupted by the test"):
        train_restarts(training, restarts, client, checkpointer=broken)
    assert checkpointer.load(0, training_shared(training)) is not None
    assert digest(train_restarts(training, restarts, client, checkpointer=checkpointer)) == expected
    again = []

    class Counting(OrderCheckpointer):
        def keep(self, restart):
            return again.append

    counting = Counting(checkpointer.checkpoints)
    assert digest(train_restarts(training, restarts, client, checkpointer=counting)) == expected
    assert again == []


@pytest.mark.parametrize("moment", [12, 13])
@pytest.mark.parametrize("workers", [0, 2], ids=["no cluster", "cluster"])
def test_a_search_in_blocks_goes_on_from_what_workers_kept(
    tmp_path, training, expected, moment, workers, monkeypatch
):
    """Workers save the proportions of an iteration, and a resumed selection reads them."""
    monkeypatch.setattr(driver, "SMALL_ENTRIES", 0)
    checkpointer = OrderCheckpointer(Checkpoints(str(tmp_path), "key"), seconds_between=0)
    states, firsts = [], []

    class Interrupting(OrderCheckpointer):
        def keep(self, restart):
            inner = super().keep(restart)

            def keep(state):
                inner(state)
                states.append(state)
                if len(states) >= moment and state.start is not None and state.iteration > 0:
                    firsts.append(state.start.proportions.part(0, 40))
                    raise InterruptedSearchError("while a worker keeps its part")

            return keep

    broken = Interrupting(checkpointer.checkpoints, seconds_between=0)
    with (
        local_client(2) as client,
        pytest.raises(InterruptedSearchError, match="while a worker keeps its part"),
    ):
        train_restarts(training, 2, client, checkpointer=broken)
    (first,) = firsts
    kept = checkpointer.load(0, training_shared(training)).start.proportions
    assert isinstance(kept, SavedProportions)
    assert [array.tolist() for array in kept.part(0, 40).arrays] == [
        array.tolist() for array in first.arrays
    ]
    # A block that is not as it was written counts as absent, and the state with it.
    damaged = tmp_path / "damaged"
    shutil.copytree(tmp_path, damaged, ignore=shutil.ignore_patterns("damaged"))
    for part in damaged.glob("restart-0-*-40.*"):
        part.write_bytes(b"")
    other = OrderCheckpointer(Checkpoints(str(damaged), "key"))
    assert other.load(0, training_shared(training)) is None
    with local_client(workers) if workers else nullcontext() as client:
        assert digest(train_restarts(training, 2, client, checkpointer=checkpointer)) == expected


@pytest.fixture
def sampled(monkeypatch):
    """Every fourth document of a corpus is its sample."""
    monkeypatch.setattr(driver, "LARGE_DOCUMENTS", 100)
    monkeypatch.setattr(driver, "SAMPLE_DOCUMENTS", 100)


def test_the_order_is_chosen_on_a_sample_and_trained_on_all(training, sampled):
    heard = []
    (state,) = train_restarts(training, 1, on_progress=lambda _, done: heard.append(done))
    orders = [record.n_topics for record in state.records]
    assert len(set(orders)) == 1, "one order is trained on all documents"
    tried = {done.n_topics for done in heard if isinstance(done, OrderRecord)}
    assert len(tried) > 1, "others are tried on the sample"
    assert state.n_splits == 0
    single = replace(training, orders=OrderRange(4, 4))
    assert not driver.needs_sample(single), "there is nothing to choose"
    assert not driver.needs_sample(replace(training, orders=OrderRange(5, 2, every=True)))


@pytest.mark.parametrize("small", [0, 2**22], ids=["blocks", "restarts"])
def test_a_sample_is_the_same_on_every_cluster(training, sampled, monkeypatch, small):
    alone = digest(train_restarts(training, 2))
    monkeypatch.setattr(driver, "SMALL_ENTRIES", small)
    for workers in (1, 2, 3):
        with local_client(workers) as client:
            assert digest(train_restarts(training, 2, client)) == alone


@pytest.mark.parametrize("n_orders", [1, 3])
def test_an_interrupted_sample_goes_on_from_its_checkpoint(tmp_path, training, sampled, n_orders):
    expected = digest(train_restarts(training, 1))
    checkpointer = OrderCheckpointer(Checkpoints(str(tmp_path), "key"), seconds_between=0)
    kept = []

    class Interrupting(OrderCheckpointer):
        def keep(self, restart):
            inner = super().keep(restart)

            def keep(state):
                inner(state)
                kept.append(self.suffix)
                if self.suffix and len(state.records) == n_orders:
                    raise InterruptedSearchError("interrupted by the test")

            return keep

    broken = Interrupting(checkpointer.checkpoints, seconds_between=0)
    with pytest.raises(InterruptedSearchError, match="interrupted by the test"):
        train_restarts(training, 1, checkpointer=broken)
    assert set(kept) == {"-sample"}
    shared = training_shared(training)
    assert len(checkpointer.of_sample().load(0, shared).records) == n_orders
    assert checkpointer.load(0, shared) is None
    assert digest(train_restarts(training, 1, checkpointer=checkpointer)) == expected
