"""Threads share work, and change nothing about the results."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atd_dask.kernels.blocks import MemoryCorpus
from atd_dask.kernels.passes import LocalPasses, NextWords, Start
from atd_dask.kernels.seeding import seed_topics
from atd_dask.kernels.threads import Threads
from atd_dask.kernels.training import CostTerms, improve_words, start_selection
from atd_dask.kernels.word_switches import SharedModel
from tests.kernels.cluster_search import random_counts
from tests.kernels.strategies import make_block


def list_arrays(result):
    counts = result.expected
    return [
        *result.proportions.arrays,
        *(counts.indptr, counts.words, counts.mass, counts.tokens, counts.proportion),
        *(result.anchors, result.anchor_weights, result.n_specific),
    ]


def summarise(result):
    return [array.tobytes() for array in list_arrays(result)], result.log_likelihood, result.cost


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=40)
def test_any_number_of_threads_gives_the_same_bytes(seed):
    rng = np.random.default_rng(seed)
    counts = random_counts(rng)
    cuts = rng.integers(0, len(counts), rng.integers(0, 12))
    starts = np.unique(np.concatenate(([0, len(counts)], cuts)))
    corpus = MemoryCorpus(make_block(counts), counts.shape[1], starts)
    alone = LocalPasses(corpus)
    shared = SharedModel.from_counts(alone.count_words())
    n_topics = int(rng.integers(1, 7))
    seeds = seed_topics(
        corpus.lengths(), lambda d: corpus.rows(d, d + 1), corpus.n_words, n_topics, seed, 0
    )
    table = start_selection(shared, seeds).table
    likely = NextWords(improve_words, (shared, table, CostTerms()))
    assigned = alone.assign(table)
    fitted = alone.fit(table, Start.after(assigned), False, likely)
    again = alone.fit(table, Start.after(fitted), False, likely)
    for n_threads in (2, 3, 7):
        with Threads(lambda n=n_threads: n) as threads:
            passes = replace(alone, threads=threads)
            assert summarise(passes.assign(table)) == summarise(assigned)
            for start, expected in ((assigned, fitted), (fitted, again)):
                result = passes.fit(table, Start.after(start), False, likely)
                assert summarise(result) == summarise(expected)


@given(st.lists(st.integers(0, 9), min_size=1), st.integers(1, 5))
def test_rows_are_cut_into_parts_of_about_as_many_entries(sizes, n_threads):
    indptr = np.concatenate(([0], np.cumsum(sizes)))
    parts = Threads(lambda: n_threads).cut(indptr)
    assert 1 <= len(parts) <= n_threads
    assert all(first < last for first, last in parts)
    assert [number for first, last in parts for number in range(first, last)] == list(
        range(len(sizes))
    )
    for first, last in parts:
        assert sum(sizes[first:last]) <= sum(sizes) / n_threads + max(sizes) + 1


def test_nothing_is_cut_into_one_part():
    assert Threads(lambda: 3).cut(np.zeros(1, np.int64)) == [(0, 0)]


def list_threads():
    return [one for one in threading.enumerate() if one.name.startswith("atd-dask-pass")]


def test_one_thread_starts_no_other():
    with Threads() as threads:
        assert threads.map(lambda piece: threading.current_thread(), [1, 2]) == 2 * [
            threading.current_thread()
        ]
        assert not list_threads()


def test_pieces_run_at_once_and_threads_end_with_the_block():
    meeting = threading.Barrier(3, timeout=60)

    def meet(piece):
        meeting.wait()
        return piece * piece, threading.current_thread()

    with Threads(lambda: 3) as threads:
        squares, who = zip(*threads.map(meet, [3, 1, 2]), strict=True)
        assert squares == (9, 1, 4), "in order"
        assert threading.current_thread() in who
        assert set(list_threads()) < set(who)
    assert not list_threads()


@pytest.mark.parametrize("allowed", [1, 2, 3])
def test_no_more_threads_are_used_than_are_left_now(allowed):
    running, most, lock = 0, 0, threading.Lock()

    def watch(piece):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.01)
        with lock:
            running -= 1

    left = 4
    with Threads(lambda: left) as threads:
        threads.map(watch, range(12))
        left, most = allowed, 0
        threads.map(watch, range(12))
    assert 1 <= most <= allowed


@pytest.mark.parametrize("bad", [0, 5])
def test_what_fails_in_a_thread_fails_here_and_leaves_no_thread(bad):
    def step(piece):
        if piece == bad:
            raise ValueError(f"piece {piece}")

    with pytest.raises(ValueError, match=f"piece {bad}"), Threads(lambda: 2) as threads:
        threads.map(step, range(6))
    assert not list_threads()
