from __future__ import annotations

import numpy as np

from atd_dask.distribution.engine.runner import Runner, align_arrays
from atd_dask.kernels.word_switches import SharedModel
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
        assert sorted(homes.count(home) for home in set(homes)) == [4, 4]
        elsewhere = runner.keep(hold_number, None, range(8), spread=True)
        # A value that is on the other worker alone does not draw a task away.
        others = type(kept)([*elsewhere.results[1:], elsewhere.results[0]], None)
        assert find_homes(client, runner.keep_all(add_one, kept, None, others)) == homes


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


def test_a_sum_is_taken_in_the_same_order_as_level_by_level():
    runner = Runner()
    for n_parts in (1, 2, 3, 4, 5, 8, 9, 10, 27, 28, 100):
        level = [str(number) for number in range(n_parts)]
        kept = runner.keep(name_number, None, range(n_parts))
        while len(level) > 1:
            level = [add_up(level[first : first + 3], None) for first in range(0, len(level), 3)]
        assert runner.reduce(add_up, kept, None, 3).results == level


def test_only_arrays_that_are_borrowed_are_copied():
    unaligned = np.frombuffer(bytearray(25), np.uint8)[1:].view(np.float64)
    fixed = np.arange(3)
    fixed.flags.writeable = False
    fine = np.arange(4)
    model = align_arrays(SharedModel(unaligned, fixed, fine))
    assert isinstance(model, SharedModel)
    assert all(array.flags.aligned and array.flags.writeable for array in model)
    assert model.rank is fine
    assert model.by_probability.tolist() == [0, 1, 2]
    assert align_arrays(model) is model
    assert align_arrays(("text", fixed))[1] is not fixed
    assert align_arrays(fixed) is fixed


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
        held = Runner(client).hold_each(hold_number, list, None, pieces())
        handle, summary = next(held)
        # Batches have half of the three tasks that a thread may have under way.
        assert len(pulled) == 3
        assert summary == [0]
        assert handle.result() == [0]
        held.close()
