"""Detection gives the same bytes wherever it runs, and resumes after an interruption."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from atd_dask.distribution import calibration, cluster_search, replicates
from atd_dask.distribution.detection import detect
from atd_dask.distribution.training import Training, choose_best, train_restarts
from atd_dask.errors import InputError
from atd_dask.kernels.blocks import MemoryCorpus
from atd_dask.kernels.bootstrap import ClusterBootstrap
from atd_dask.kernels.calibration import HeldOutSearch, draw_held_out
from atd_dask.kernels.cluster_growth import BicRule, MembershipRule, SettleRule
from atd_dask.kernels.contrast import ContrastSearch
from atd_dask.kernels.detection_rules import DetectionRules
from atd_dask.kernels.model import Block
from atd_dask.kernels.proposals import Proposal
from atd_dask.kernels.training import Convergence, CostTerms, OrderRange
from atd_dask.storage.checkpoints import Checkpoints
from atd_dask.storage.detection_checkpoints import DetectionCheckpointer
from tests.clusters import local_client
from tests.kernels.strategies import make_block

N_WORDS = 150
PLANTED = range(60, 80)


def draw(rng, topics, labels, n_tokens=60):
    return np.stack([rng.multinomial(n_tokens, topics[label]) for label in labels])


@pytest.fixture(scope="module", autouse=True)
def small_tasks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replicates, "MOST_REPLICATES", 25)
        patch.setattr(cluster_search, "MOST_SEEDS", 1)
        yield


@pytest.fixture(scope="module")
def problem():
    """Four normal topics, and 20 documents of the batch that share a fifth on half of each."""
    rng = np.random.default_rng(5)
    topics = 0.8 * rng.dirichlet(np.full(N_WORDS, 0.05), 5) + 0.2 / N_WORDS
    normal = np.arange(400) % 4
    train = draw(rng, topics, normal)
    validation = draw(rng, topics, normal[:120])
    test = draw(rng, topics, normal[:60])
    mixed = [0.5 * topics[label] + 0.5 * topics[4] for label in normal[: len(PLANTED)]]
    planted = np.stack([rng.multinomial(60, p) for p in mixed])
    corpora = [
        MemoryCorpus(make_block(part), N_WORDS)
        for part in (train, validation, np.vstack((test, planted)))
    ]
    searches = train_restarts(Training(corpora[0], OrderRange(6, 3), Convergence(), 1), 1)
    return choose_best(searches), *corpora


def rules(**changes):
    given = {
        "seeds": 6,
        "stop": MembershipRule(replicates=200),
        "settle": True,
        "pool": "validation+batch",
        "donors": 10,
        "replicates": 200,
        "level": 0.01,
        "settling": SettleRule(),
        "searches": 3,
        "failures": 2,
        "remember": True,
        "unseen": True,
    }
    return DetectionRules(**(given | changes))


def run(problem, client=None, checkpointer=None, **changes):
    table, train, validation, test = problem
    pools = {"train": train, "validation": validation}
    return detect(table, test, pools, rules(**changes), 1, client, checkpointer)


def digest(clusters):
    return [
        (c.growth, c.score, c.scores.tobytes(), c.p_value, c.topic.probabilities.tobytes())
        for c in clusters
    ]


@pytest.fixture(scope="module")
def expected(problem):
    return digest(run(problem))


@pytest.mark.parametrize("stop", [MembershipRule(replicates=200), BicRule()])
@pytest.mark.parametrize("pool", ["validation", "validation+batch", "train"])
def test_planted_documents_are_found_by_growth(problem, stop, pool):
    first, *_ = run(problem, settle=False, stop=stop, pool=pool)
    assert len(set(first.documents) & set(PLANTED)) >= 16
    assert len(set(first.documents) - set(PLANTED)) <= 6


def test_planted_documents_are_found(problem):
    first, *others = run(problem)
    assert first.significant
    assert first.search_p_value <= 0.01
    assert first.support > max(first.calibration_support)
    assert len(set(first.documents) & set(PLANTED)) >= 18
    assert len(set(first.documents) - set(PLANTED)) <= 4
    assert not any(other.significant for other in others)


def test_a_candidate_that_fails_does_not_hide_another(problem, monkeypatch):
    """The planted documents are found behind others that seem to have more support."""
    grow = cluster_search.ClusterSearch._grow_groups
    settle = cluster_search.ClusterSearch._settle

    def mislead(self, *given):
        return [Proposal((0, 1, 2, 3), 1e9), *grow(self, *given)]

    def unmask(self, candidate):
        growth = settle(self, candidate)
        if candidate.group.support == 1e9:
            growth = replace(growth, documents=candidate.group.documents, support=0.0)
        return growth

    monkeypatch.setattr(cluster_search.ClusterSearch, "_grow_groups", mislead)
    monkeypatch.setattr(cluster_search.ClusterSearch, "_settle", unmask)
    first, second, *_ = run(problem)
    assert not first.significant
    assert second.significant
    assert set(second.documents) > set(PLANTED[:10])
    assert not any(cluster.significant for cluster in run(problem, failures=1))


def test_a_core_outside_its_group_still_has_members(problem, monkeypatch):
    """A core may move away from the group it came from, and its reach may be empty."""
    elsewhere = np.array([0, 1, 2])
    nobody = np.zeros(0, np.int64)
    monkeypatch.setattr(ContrastSearch, "find_core", lambda self, documents: elsewhere)
    monkeypatch.setattr(ContrastSearch, "find_reach", lambda self, core: nobody)
    first, *_ = run(problem)
    assert set(first.documents) >= set(elsewhere)


def test_a_document_that_repeats_one_word_changes_no_cluster(problem):
    table, train, validation, test = problem
    bursty = validation.rows(0, 1)
    counts = bursty.counts.copy()
    counts[3] += 2000
    with_it = Block.concatenate([test.whole, Block(bursty.indptr, bursty.terms, counts)])
    corpora = {"train": train, "validation": validation}
    found = detect(table, MemoryCorpus(with_it, N_WORDS), corpora, rules(), 1)
    assert [set(c.documents) for c in found if c.significant] == [
        set(c.documents) for c in run(problem) if c.significant
    ]


def test_a_batch_that_is_too_large_for_its_training_is_refused(problem):
    table, train, validation, test = problem
    few = MemoryCorpus(train.rows(0, 100), N_WORDS)
    corpora = {"train": few, "validation": MemoryCorpus(validation.rows(0, 20), N_WORDS)}
    with pytest.raises(InputError, match=r"twice as many normal documents.*120 and 80.*training"):
        detect(table, test, corpora, rules(), 1)
    assert detect(table, test, corpora, rules(searches=0), 1)


@pytest.mark.parametrize("n_normal", [20, 100, 300, 1000])
def test_two_thousand_documents_are_not_judged_by_a_thousand_normal_ones(problem, n_normal):
    """Ordinary documents in a batch that large would make clusters of hundreds."""
    table, train, validation, _ = problem
    some = np.resize(np.arange(train.n_docs), n_normal - 10)
    corpora = {
        "train": MemoryCorpus(train.whole.take(some), N_WORDS),
        "validation": MemoryCorpus(validation.rows(0, 10), N_WORDS),
    }
    batch = np.resize(np.arange(train.n_docs), 2000)
    ordinary = MemoryCorpus(train.whole.take(batch), N_WORDS)
    for seed in range(1, 21):
        with pytest.raises(InputError, match=f"got {n_normal:,} and 2,000"):
            detect(table, ordinary, corpora, rules(), seed)


@pytest.mark.parametrize(("workers", "processes"), [(1, False), (2, True), (3, False)])
def test_every_cluster_gives_the_same_bytes(problem, expected, workers, processes):
    with local_client(workers, processes=processes) as client:
        assert digest(run(problem, client)) == expected


def test_replicates_do_not_depend_on_their_batch(problem, expected, monkeypatch):
    monkeypatch.setattr(replicates, "MOST_REPLICATES", 200)
    assert digest(run(problem, max_clusters=1)) == expected[:1]


class InterruptedDetectionError(Exception):
    pass


@pytest.mark.parametrize("moment", [1, 3, 7])
def test_an_interrupted_detection_goes_on(tmp_path, problem, expected, moment):
    class Interrupting(DetectionCheckpointer):
        calls = 0

        def save_scores(self, index, scores):
            super().save_scores(index, scores)
            Interrupting.calls += 1
            if Interrupting.calls == moment:
                raise InterruptedDetectionError("interrupted by the test")

    checkpoints = Checkpoints(str(tmp_path), "key")
    with pytest.raises(InterruptedDetectionError, match="interrupted by the test"):
        run(problem, checkpointer=Interrupting(checkpoints))
    done = []
    original = ClusterBootstrap.scores

    def count(self, replicates):
        done.extend(replicates)
        return original(self, replicates)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClusterBootstrap, "scores", count)
        assert digest(run(problem, checkpointer=DetectionCheckpointer(checkpoints))) == expected
    assert len(done) < sum(len(scores) // 8 for _, _, scores, *_ in expected)


def empty(n_docs=0):
    return MemoryCorpus(make_block(np.zeros((n_docs, N_WORDS), int)), N_WORDS)


def test_odd_batches_have_an_outcome(problem):
    table, train, validation, test = problem
    pools = {"train": train, "validation": validation}
    assert detect(table, empty(), pools, rules(), 1) == []
    assert detect(table, empty(3), pools, rules(), 1) == []
    one = MemoryCorpus(test.rows(60, 61), N_WORDS)
    assert detect(table, one, pools, rules(), 1) == []
    assert len(detect(table, one, pools, rules(settle=False), 1)) == 1
    same = MemoryCorpus(test.whole.take(np.full(12, 65)), N_WORDS)
    assert detect(table, same, pools, rules(), 1)[0].documents
    anomalous = MemoryCorpus(test.rows(60, 80), N_WORDS)
    assert len(detect(table, anomalous, pools, rules(), 1)[0].documents) >= 18


def test_a_pool_that_is_too_thin_is_noticed(problem):
    table, train, validation, test = problem
    thin = rules(pool="validation", donors=1, failures=1, searches=0)
    (cluster,) = detect(table, test, {"train": train, "validation": empty()}, thin, 1)
    assert cluster.documents
    assert not cluster.significant
    one = MemoryCorpus(validation.rows(0, 1), N_WORDS)
    cluster, *_ = detect(table, test, {"train": train, "validation": one}, thin, 1)
    assert cluster.only_donor == len(cluster.documents)


class Killer:
    """Kills a worker whenever something is to be kept, as often as there are workers to kill."""

    def __init__(self, client, moments):
        self.pids = sorted(client.run(os.getpid).values())
        self.moments = moments
        self.kept = {}
        self.killed = []

    def note(self, what):
        self.kept[what] = self.kept.get(what, 0) + 1
        if (what, self.kept[what]) in self.moments:
            os.kill(self.pids[len(self.killed)], signal.SIGKILL)
            self.killed.append(what)


@pytest.mark.parametrize(
    "moments",
    [(("grow", 1),), (("scores", 1), ("scores", 5)), (("chance", 1),)],
    ids=["groups", "B2", "searches"],
)
def test_killed_workers_change_nothing(problem, expected, moments, monkeypatch):
    names = {
        cluster_search.grow_on_worker: "grow",
        replicates.score_replicates: "scores",
        calibration.search_held_out: "chance",
    }
    with local_client(3, processes=True) as client:
        killer = Killer(client, moments)

        def kill_after(submit, step, *arguments, **options):
            submitted = submit(step, *arguments, **options)
            if step in names:
                killer.note(names[step])
            return submitted

        for name in ("submit", "map"):
            monkeypatch.setattr(client, name, partial(kill_after, getattr(client, name)))
        assert digest(run(problem, client)) == expected
        assert len(killer.killed) == len(moments)


def test_proposals_are_not_made_again(tmp_path, problem, expected, monkeypatch):
    checkpoints = Checkpoints(str(tmp_path), "key")

    class Interrupting(DetectionCheckpointer):
        def save_proposals(self, index, proposals):
            super().save_proposals(index, proposals)
            raise InterruptedDetectionError("interrupted by the test")

    with pytest.raises(InterruptedDetectionError, match="interrupted by the test"):
        run(problem, checkpointer=Interrupting(checkpoints))
    monkeypatch.setattr(cluster_search, "grow_groups", None)
    checkpointer = DetectionCheckpointer(checkpoints)
    checkpointer.save_calibration([HeldOutSearch(0.0)] * 3)
    assert digest(run(problem, checkpointer=checkpointer, max_clusters=1)) == expected[:1]


def test_what_held_out_searches_find_can_be_looked_at(tmp_path, problem):
    table, train, validation, _ = problem
    checkpointer = DetectionCheckpointer(Checkpoints(str(tmp_path), "key"))
    first, *_ = run(problem, checkpointer=checkpointer, searches=4, max_clusters=1)
    assert first.calibration_support.tolist() == [search.support for search in first.searches]
    assert checkpointer.load_calibration() == list(first.searches)
    found = [search for search in first.searches if search.size]
    for search in found:
        assert 0 < len(search.documents) <= min(search.size, calibration.NAMED_DOCUMENTS)
        assert all(0 <= row < train.n_docs + validation.n_docs for row in search.documents)
        assert 0 < len(search.words) <= calibration.NAMED_WORDS
        assert all(0 <= word < table.n_words for word in search.words)
    assert found
    with local_client(2) as client:
        again, *_ = run(problem, client, searches=4, max_clusters=1)
    assert again.searches == first.searches


def test_the_documents_of_a_held_out_search_are_rows_of_the_normal_ones(problem):
    """The words that a search names are in the documents that it names."""
    _, train, validation, test = problem
    corpora = {"train": train, "validation": validation}
    searched = calibration.Calibration(corpora, rules(), test.n_docs, 1)
    searches = [calibration.search_held_out(searched, index) for index in range(4)]
    for search in searches:
        terms = {
            term for row in search.documents for term in searched.normal.rows(row, row + 1).terms
        }
        assert not search.words or set(search.words) & terms


def test_held_out_searches_that_an_earlier_version_kept(tmp_path):
    checkpoints = Checkpoints(str(tmp_path), "key")
    checkpoints.save("chance", {}, {"support": np.array([1.5, 0.0])})
    kept = DetectionCheckpointer(checkpoints).load_calibration()
    assert kept == [HeldOutSearch(1.5, size=None), HeldOutSearch(0.0, size=None)]


def test_a_growth_goes_on_from_the_last_document_that_joined(tmp_path, problem):
    alone = {"settle": False, "searches": 0, "max_clusters": 1}
    expected = digest(run(problem, **alone))
    checkpoints = Checkpoints(str(tmp_path), "key")
    grown = []

    class Interrupting(DetectionCheckpointer):
        def save_growth(self, index, growth):
            super().save_growth(index, growth)
            grown.append(growth)
            if len(grown) == 9:
                raise InterruptedDetectionError("interrupted by the test")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster_search, "SECONDS_BETWEEN", 0)
        with pytest.raises(InterruptedDetectionError, match="interrupted by the test"):
            run(problem, checkpointer=Interrupting(checkpoints), **alone)
        kept = DetectionCheckpointer(checkpoints).load_growth(1)
        assert len(kept.steps) == 9
        assert not kept.ended
        patch.setattr(cluster_search, "preview_clusters", None)
        checkpointer = DetectionCheckpointer(checkpoints)
        assert digest(run(problem, checkpointer=checkpointer, **alone)) == expected


def test_lda_in_place_of_the_parsimonious_model(problem):
    _, train, validation, test = problem
    terms = CostTerms(lda=True)
    training = Training(train, OrderRange(4, 4), Convergence(), 1, terms)
    table = choose_best(train_restarts(training, 1))
    known = int(np.count_nonzero(table.shared))
    assert table.specific_words().tolist() == [known] * 4
    corpora = {"train": train, "validation": validation}
    lda = rules(lda=True, searches=0, max_clusters=1)
    cluster, *_ = detect(table, test, corpora, lda, 1)
    assert np.count_nonzero(cluster.topic.specific) == known


def test_a_held_out_search_is_judged_as_a_detection_is(problem):
    """The documents of a held-out search, given as a batch, have its support: a candidate that is
    split, or that comes second, counts in both alike."""
    table, train, validation, _ = problem
    told = rules(seeds=20, level=1e-9, searches=1, failures=3)
    held_out = calibration.Calibration({"train": train, "validation": validation}, told, 80, 1)
    held, rest = draw_held_out(held_out.normal, 80, 1, 0)
    batch, normal = MemoryCorpus.read(held), MemoryCorpus.read(rest)
    halves = {
        "train": MemoryCorpus(normal.rows(0, 300), N_WORDS),
        "validation": MemoryCorpus(normal.rows(300, normal.n_docs), N_WORDS),
    }
    found = detect(table, batch, halves, told, 1)
    assert not any(cluster.significant for cluster in found)
    expected = calibration.search_held_out(held_out, 0).support
    assert max(cluster.support for cluster in found) == expected > 0
