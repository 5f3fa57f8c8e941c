"""Passes on workers are those of this process."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import pytest

from atd_dask.distribution import block_groups
from atd_dask.distribution.block_passes import MOST_RECENT, ClusterPasses, SentValues
from atd_dask.distribution.engine.runner import Runner
from atd_dask.kernels.blocks import MemoryCorpus
from atd_dask.kernels.passes import LocalPasses, NextWords, Start
from atd_dask.kernels.seeding import seed_topics
from atd_dask.kernels.training import CostTerms, improve_words, start_selection
from atd_dask.kernels.word_switches import SharedModel, TopicWords
from tests.clusters import local_client
from tests.distribution.test_training import SmallBlocks, make_corpus


@pytest.fixture(scope="module")
def documents():
    return make_corpus()


def read_row(corpus, document):
    return corpus.rows(document, document + 1)


def wrap_mass(counts, shared):
    """The expected counts, as if they were the words of topics."""
    return TopicWords(counts.indptr, counts.words, counts.mass)


def summarise(result, shared):
    words = result.expected.ask(wrap_mass, shared).read()
    return (
        [array.tolist() for array in (words.indptr, words.topics, words.probabilities)],
        result.expected.tokens.tolist(),
        result.expected.proportion.tolist(),
        result.log_likelihood,
        result.cost,
        result.n_active,
        result.n_docs,
        result.anchors.tolist(),
    )


def test_only_totals_come_to_the_client(documents, monkeypatch):
    """What the client receives in a pass does not grow with the number of documents."""
    fetch, totals = Runner.fetch, []

    def watch(self, handle):
        value = fetch(self, handle)
        if isinstance(value, block_groups.Totals):
            totals.append(value)
        return value

    monkeypatch.setattr(Runner, "fetch", watch)
    with local_client(2) as client:
        received = []
        for n_docs in (80, 400):
            corpus = SmallBlocks(documents.rows(0, n_docs), documents.n_words)
            with ClusterPasses(Runner(client), corpus) as passes:
                local = LocalPasses(corpus)
                shared = SharedModel.from_counts(passes.count_words())
                assert passes.count_words().tolist() == local.count_words().tolist()
                seeds = seed_topics(
                    corpus.lengths(), partial(read_row, corpus), corpus.n_words, 4, 1, 0
                )
                table = start_selection(shared, seeds).table
                whole, here = passes.assign(table), local.assign(table)
                assert summarise(whole, shared) == summarise(here, shared)
                received.append(len(pickle.dumps(totals[-1])))
        assert received[1] < 1.1 * received[0]


def test_a_value_is_sent_once():
    class Sender:
        sent = 0

        def send(self, value):
            self.sent += 1
            return f"handle of {value}"

    sender = Sender()
    values = SentValues(sender)
    one, other = np.arange(3), np.arange(3)
    assert values.send(one) is values.send(one)
    assert sender.sent == 1
    values.send(other)
    assert sender.sent == 2, "equal, but another one"
    for number in range(MOST_RECENT):
        values.send(one)
        values.send(f"value {number}")
    assert sender.sent == 2 + MOST_RECENT, "what is sent again and again is remembered"
    values.send(other)
    assert sender.sent == 3 + MOST_RECENT


@pytest.mark.parametrize(("size", "most", "n_workers"), [(1, 3, 1), (3, 64, 1), (40, 1, 2)])
def test_groups_of_blocks_add_up_to_the_same_bytes(documents, size, most, n_workers, monkeypatch):
    """However many blocks a task has, and on how many workers they are."""
    monkeypatch.setattr(block_groups, "MOST_BLOCKS", most)
    starts = np.unique([*range(0, 400, size), 400])
    corpus = MemoryCorpus(documents.whole, documents.n_words, starts)
    local = LocalPasses(corpus)
    seeds = seed_topics(corpus.lengths(), partial(read_row, corpus), corpus.n_words, 4, 1, 0)
    shared = SharedModel.from_counts(local.count_words())
    table = start_selection(shared, seeds).table
    rows = np.array([0, 2, 3, 77, 399])
    with local_client(n_workers) as client, ClusterPasses(Runner(client), corpus) as passes:
        sizes = [len(group.result()) for group in passes._groups.results]
        assert sum(sizes) == len(starts) - 1
        assert max(sizes) <= most
        assert passes.count_words().tolist() == local.count_words().tolist()
        assert passes.take(rows).terms.tolist() == local.take(rows).terms.tolist()
        mine, here = passes.assign(table), local.assign(table)
        assert summarise(mine, shared) == summarise(here, shared)
        likely = NextWords(improve_words, (shared, table, CostTerms()))
        expected = local.fit(table, Start.after(here), False, likely)
        for start in (mine, here):
            fitted = passes.fit(table, Start.after(start), False, likely)
            assert summarise(fitted, shared) == summarise(expected, shared)
            assert fitted.n_specific.tolist() == expected.n_specific.tolist()
            for first, last in ((starts[0], starts[1]), (starts[-2], starts[-1])):
                parts = (one.proportions.part(first, last) for one in (fitted, expected))
                one, two = ([array.tolist() for array in part.arrays] for part in parts)
                assert one == two


def test_the_next_fit_is_done_ahead_unless_it_is_forgotten(documents, monkeypatch):
    corpus, terms = documents, CostTerms()
    local = LocalPasses(corpus)
    shared = SharedModel.from_counts(local.count_words())
    seeds = seed_topics(corpus.lengths(), partial(read_row, corpus), corpus.n_words, 4, 1, 0)
    first = start_selection(shared, seeds).table

    def go_on(passes, table, result):
        likely = NextWords(improve_words, (shared, table, terms))
        return passes.fit(table, Start.after(result), False, likely), likely

    with local_client(2) as client, ClusterPasses(Runner(client), corpus) as passes:
        here, likely = go_on(local, first, local.assign(first))
        there, likely = go_on(passes, first, passes.assign(first))
        submitted = []
        monkeypatch.setattr(passes, "_fit", lambda *given: submitted.append(given) or fit(*given))
        fit = type(passes)._fit.__get__(passes)
        ahead = passes._ahead
        words = likely.ask(there)
        assert words is ahead.table, "they are not chosen twice"
        wider = there.expected.ask(improve_words, shared, first, terms, True)
        assert wider is not words, "other words"
        here, _ = go_on(local, likely.ask(here), here)
        there, likely = go_on(passes, words, there)
        assert len(submitted) == 1, "only the fit after this one"
        assert summarise(there, shared) == summarise(here, shared)
        passes.forget()
        words = likely.ask(there)
        one, other = go_on(passes, words, there)[0], go_on(local, words.read(), here)[0]
        assert summarise(one, shared) == summarise(other, shared)
        assert len(submitted) == 3, "it had to be done again"
