from __future__ import annotations

import re
import warnings
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from distributed import get_worker

from atd_dask.distribution.engine.runner import (
    BATCHES,
    LITTLE_BYTES,
    RemoteResults,
    Runner,
    _is_little,
    share_out,
    split_by_size,
)
from atd_dask.text.lexicon import WordCodes
from tests.clusters import local_client, wait_for


def hold_number(_, number):
    return [number]


def add_one(result, _, other=None):
    return [result[0] + 1]


def add_up(results, _):
    """A sum that shows the order in which it was taken."""
    total = results[0]
    for result in results[1:]:
        total = f"({total}+{result})"
    return total


def name_number(_, number):
    return str(number)


def find_homes(client, kept):
    client.gather(kept.results)
    holders = client.who_has(kept.results)
    return [tuple(holders[future.key]) for future in kept.results]


def test_results_are_spread_over_all_threads_and_what_follows_stays_there():
    with local_client(2) as client:
        runner = Runner(client)
        kept = runner.keep(hold_number, None, range(8), spread=True)
        homes = find_homes(client, kept)
        assert {len(home) for home in homes} == {1}
        assert homes == 4 * [homes[0]] + 4 * [homes[-1]], "neighbours are together"
        assert homes[0] != homes[-1]
        elsewhere = runner.keep(hold_number, None, range(8), spread=True)
        # A value that is on the other worker alone does not draw a task away.
        others = type(kept)([*elsewhere.results[4:], *elsewhere.results[:4]], None)
        assert find_homes(client, runner.keep_all(add_one, kept, None, others)) == homes


def test_pieces_are_shared_out():
    with local_client(2) as client:
        one, other = sorted(client.nthreads())
        kept = Runner(client).keep(hold_number, None, range(7), spread=True)
        assert list(kept.homes) == [one, one, one, other, other, other, other]


@pytest.mark.parametrize(("n_pieces", "n_threads"), [(0, 2), (1, 3), (7, 3), (9, 3), (10, 4)])
def test_all_threads_have_as_many_pieces_or_one_more(n_pieces, n_threads):
    shares = share_out(n_pieces, n_threads)
    assert shares == sorted(shares)
    sizes = [shares.count(index) for index in range(n_threads)]
    assert (sum(sizes), max(sizes) - min(sizes)) == (n_pieces, n_pieces % n_threads > 0)


def test_results_of_a_lost_worker_are_computed_elsewhere():
    with local_client(2) as client:
        runner = Runner(client)
        kept = runner.keep(hold_number, None, range(4), spread=True)
        lost = kept.homes[0]
        client.gather(kept.results)
        client.retire_workers([lost], close_workers=True)
        wait_for(lambda: lost not in client.nthreads())
        more = runner.keep_all(add_one, kept, None)
        assert client.gather(more.results) == [[number + 1] for number in range(4)]


@pytest.mark.parametrize("most", [1, 8])
@pytest.mark.parametrize("homes", [[], ["one"] * 5 + ["other"] * 95, [str(n) for n in range(100)]])
def test_neighbours_are_combined_until_few_are_left(homes, most):
    runner = Runner()
    for n_parts in (1, 2, 3, 5, 8, 9, 10, 28, 100):
        kept = runner.keep(name_number, None, range(n_parts))
        few = runner.reduce(add_up, replace(kept, homes=homes[:n_parts]), None, 3, most)
        assert 1 <= len(few.results) <= most
        leaves = re.findall(r"\d+", " ".join(few.results))
        assert leaves == [str(number) for number in range(n_parts)], "in order"


def test_neighbours_on_a_worker_are_combined_there_first():
    few = Runner().reduce(
        add_up, RemoteResults(list("abcdefg"), None, ["x"] * 3 + ["y"] * 4), None, 8, 6
    )
    assert few.results == [add_up(list("abc"), None), add_up(list("defg"), None)]
    assert list(few.homes) == ["x", "y"]


def test_large_rows_are_submitted_apart():
    half = np.zeros(2**18)  # 2 MiB
    codes = WordCodes(np.zeros(2**19, np.int32), np.zeros(0, np.int32), 1, 1)
    rows = [(half, 1), (half[:9], 2), (None, (3, codes)), (np.zeros(2**20), 4), (None, 5)]
    sizes = [len(some) for some in split_by_size(rows, 3 * 2**20)]
    assert sizes == [2, 1, 1, 1]
    assert list(split_by_size([], 1)) == []
    with local_client(1) as client, warnings.catch_warnings():
        warnings.simplefilter("error")  # Dask warns of graphs of 10 MiB
        runner = Runner(client)
        kept = runner.keep(measure_array, None, 8 * [half])
        assert client.gather(kept.results) == 8 * [len(half)]
        runner.drop(kept)


def measure_array(_, values):
    return len(values)


def test_a_value_is_made_again_where_it_is_needed():
    assert Runner().remake("here", None, None).results == ["here"]
    with local_client(1) as client:
        runner = Runner(client)
        kept = runner.remake("here", add_word, "made")
        assert runner.ask(add_word, kept, [(0, "there")]) == ["made None there"]
        runner.drop(kept)


def add_word(given, word):
    return f"{given} {word}"


def fail(_):
    raise ValueError("as it should")


@pytest.mark.parametrize("on_cluster", [False, True])
def test_different_steps_are_derived_together(on_cluster):
    with local_client(1) if on_cluster else nullcontext() as client:
        runner = Runner(client)
        one, other = runner.send("one"), runner.send("other")
        rows = [(add_word, one, "word"), (str.upper, other), (add_up, [one, other], None)]
        derived = runner.derive_all(rows, priority=1)
        assert [runner.fetch(handle) for handle in derived] == ["one word", "OTHER", "(one+other)"]
        if on_cluster:
            names = [handle.key.rsplit("-", 2)[0] for handle in derived]
            assert names == ["add-word", "upper", "add-up"]


def test_results_that_are_awaited_may_fail():
    Runner().wait(["here"])
    with local_client(1) as client:
        runner = Runner(client)
        good, bad = (runner.derive(step, runner.send(["it"])) for step in (len, fail))
        runner.wait([good, bad])
        assert good.done()
        assert runner.fetch(good) == 1
        with pytest.raises(ValueError, match="as it should"):
            runner.fetch(bad)


def join_numbers(results, shared, question):
    return [shared, question, *(number for result in results for number in result)]


def test_questions_are_submitted_in_batches_and_answered_in_order(monkeypatch):
    with local_client(1) as client:
        runner = Runner(client)
        kept = runner.keep(hold_number, None, range(20))
        sizes = []
        submit_all = type(client).map

        def watch(self, step, *columns, **options):
            sizes.append(len(columns[0]))
            return submit_all(self, step, *columns, **options)

        monkeypatch.setattr(type(client), "map", watch)
        questions = (([one], number) for number, one in enumerate(kept.results))
        answers = list(runner.combine(join_numbers, "all", questions, at_least=16))
        assert answers == [["all", number, number] for number in range(20)]
        assert sizes == [8, 8, 4]


def test_the_next_batch_is_under_way_before_the_results_of_one_are_used():
    pulled = []

    def pieces():
        for number in range(30):
            pulled.append(number)
            yield number

    with local_client(1) as client:
        held = Runner(client).hold_each(hold_number, list, None, ((piece,) for piece in pieces()))
        handle, summary = next(held)
        # Batches have half of three tasks for each thread. Those under way were filled up.
        assert len(pulled) == BATCHES + 1
        assert summary == [0]
        assert handle.result() == [0]
        held.close()


def test_a_batch_has_as_many_tasks_for_each_thread():
    pulled = []

    def rows():
        for number in range(30):
            pulled.append(number)
            yield (number,)

    with local_client(2) as client:
        held = Runner(client).hold_each(hold_number, list, None, rows())
        next(held)
        assert len(pulled) == (BATCHES + 1) * 4
        held.close()


def find_worker(shared, number):
    return get_worker().address


def test_the_first_tasks_go_to_all_workers():
    with local_client(2) as client:
        for shared in ("little", None):
            held = Runner(client).hold_each(find_worker, str, shared, ((n,) for n in range(4)))
            assert len({address for _, address in held}) == 2


def test_arrays_and_much_else_are_not_sent_along_with_every_task():
    assert _is_little(("options", 1, None))
    assert not _is_little(np.zeros(1))
    assert not _is_little("x" * LITTLE_BYTES)


def test_results_that_are_spread_are_as_many_on_all_workers():
    with local_client(2) as client:
        rows = ((number,) for number in range(12))
        held = Runner(client).hold_each(find_worker, str, None, rows, spread=True)
        addresses = [address for _, address in held]
    assert {addresses.count(address) for address in set(addresses)} == {6}


def test_tasks_with_different_homes_are_one_graph(monkeypatch):
    with local_client(2) as client:
        runner = Runner(client)
        one, other = sorted(client.nthreads())
        here = runner.keep(hold_number, None, range(8), spread=True)
        graphs = []
        submit_all = type(client).map

        def watch(self, *given, **options):
            graphs.append(options)
            return submit_all(self, *given, **options)

        monkeypatch.setattr(type(client), "map", watch)
        homes = [one, other, other, one, one, other, one, other]
        rows = [(add_one, handle, None) for handle in here.results]
        there = runner.derive_all(rows, homes)
        assert find_homes(client, RemoteResults(there, None)) == [(home,) for home in homes]
        assert len(graphs) == 1


def test_a_home_that_is_lost_is_no_obstacle():
    with local_client(1) as client:
        runner = Runner(client)
        rows = [(add_word, "a", "word")]
        (handle,) = runner.derive_all(rows, ["tcp://127.0.0.1:1"])
        assert runner.fetch(handle) == "a word"
